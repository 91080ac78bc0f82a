//! `init`: makes a pool. [`super::run`] calls this.
//!
//! Invariant: a recovery key is durable in its file before the pool exists that it opens. If the
//! pool is not made, the file is removed.

use super::failure;
use super::invocation::Invocation;
use crate::settings::password_of;
use anyhow::bail;
use command_line::{GlobalArgs, InitArgs};
use format::config::Seal;
use store::{InitOptions, NewSecret, OpenMode, Pool, SecretKey};
use terminal::exit::Exit;
use terminal::json::Object;
use unlocking::{PasswordSource, RecoveryKey, exposed_secret, remember_new};

const CHUNK_BYTES: std::ops::RangeInclusive<u64> = (4 << 10)..=(256 << 10);

pub(super) fn run(
    invocation: &Invocation,
    global: &GlobalArgs,
    args: &InitArgs,
) -> anyhow::Result<Exit> {
    let chunk_bytes_average = match args.chunk_size {
        size if CHUNK_BYTES.contains(&size) && size.is_power_of_two() => size as u32,
        _ => bail!("invalid --chunk-size: it is a power of two from 4K to 256K"),
    };
    let place = invocation.settings.pool()?.display().to_string();
    let source = match args.no_encryption {
        true => PasswordSource::Terminal,
        false => own_password(invocation, global)?,
    };
    let secret = match args.no_encryption {
        true => None,
        false => Some(source.read_new(&invocation.context)?),
    };
    let environment = &invocation.context.environment;
    if let Some(warning) = exposed_secret(&source, environment).filter(|_| secret.is_some()) {
        invocation.console.warn(warning);
    }
    let media = invocation.media(true)?;
    let recovery = match &args.recovery_key_file {
        Some(file) => {
            let key = RecoveryKey::random(&*media.random);
            key.write(file)?;
            Some((file, SecretKey::Recovery(key.0)))
        }
        None => None,
    };
    let password = secret.iter().map(|secret| NewSecret {
        secret,
        label: &args.label,
    });
    let secrets: Vec<NewSecret<'_>> = password
        .chain(recovery.iter().map(|(_, secret)| NewSecret {
            secret,
            label: "recovery",
        }))
        .collect();
    let options = InitOptions {
        secrets: &secrets,
        chunk_bytes_average,
        parity_percent: args.parity,
    };
    if let Err(e) = Pool::init(&media, &options) {
        if let Some((file, _)) = &recovery {
            // Without the pool, the key opens nothing.
            let _ = std::fs::remove_file(file);
        }
        return Err(failure::of_new_pool(e, invocation.settings.pool()?));
    }
    let memory = invocation.settings.memory_bytes;
    let pool = Pool::open(media, secret.as_ref(), OpenMode::Read, memory)?;
    remember_new(invocation.settings.pool()?, &pool, environment)?;
    let (id, seal) = (pool.config().pool, pool.config().seal);
    let console = &invocation.console;
    console.message(
        Object::message("initialized")
            .text("id", &id.to_string())
            .text("repository", &place)
            .boolean("encrypted", seal != Seal::None),
    )?;
    console.line(format!("created pool {} at {place}", &id.to_string()[..8]))?;
    if let Some((file, _)) = &recovery {
        console.line(format!(
            "recovery key in {}; move it to a safe place",
            file.display()
        ))?;
    }
    match seal {
        Seal::None => console
            .note("The pool is not encrypted: everyone who can read its files can read the data."),
        Seal::Aes256Gcm => console.note(
            "If you lose all passwords and recovery keys, you lose the contents of the pool.",
        ),
    }
    Ok(Exit::Done)
}

/// Returns the source of the new pool's password. A password that the environment has for another
/// pool is not silently that of a second one: a terminal is asked, and without one it is said.
fn own_password(invocation: &Invocation, global: &GlobalArgs) -> anyhow::Result<PasswordSource> {
    let settings = &invocation.settings;
    let Some(other) = password_of(global, &invocation.context, settings.pool()?) else {
        return Ok(settings.password.clone());
    };
    let other = other.display();
    if invocation.context.terminal().is_some() {
        invocation.console.note(format_args!(
            "the password in the environment is that of {other}; this pool gets one of its own"
        ));
        return Ok(PasswordSource::Terminal);
    }
    invocation.console.note(format_args!(
        "the password is that of {other}, from the environment; --password-file gives this pool its own"
    ));
    Ok(settings.password.clone())
}
