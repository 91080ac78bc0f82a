//! `key`: changes and lists passwords and recovery keys of a pool. [`super::run`] calls this.
//!
//! Invariant: a new key is durable before an old one is removed. The pool has a key at every
//! moment.

use super::confirm::{can_ask, is_wanted};
use super::invocation::Invocation;
use anyhow::bail;
use command_line::{KeyCommand, NewKeyArgs};
use format::key_slot::KeyDerivation;
use media::SystemRandom;
use std::path::Path;
use store::{NewSecret, OpenMode, Pool, SecretKey, SlotInfo};
use terminal::calendar;
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::table::Table;
use unlocking::{PasswordSource, RecoveryKey, exposed_secret};

pub(super) fn run(invocation: &Invocation, command: &KeyCommand) -> anyhow::Result<Exit> {
    match command {
        KeyCommand::Add(args) => add(invocation, args),
        KeyCommand::Recovery { file, label } => recovery(invocation, file, label),
        KeyCommand::List => list(invocation),
        KeyCommand::Remove { name, yes } => remove(invocation, name, *yes),
        KeyCommand::Passwd(args) => passwd(invocation, args),
    }
}

fn add(invocation: &Invocation, args: &NewKeyArgs) -> anyhow::Result<Exit> {
    let pool = invocation.open(OpenMode::Write)?;
    if invocation.keys(&pool)?.1.is_none() {
        bail!("the pool is not encrypted and has no keys");
    }
    let slot = add_password(invocation, &pool, args)?;
    say(invocation, "added", &slot)
}

fn passwd(invocation: &Invocation, args: &NewKeyArgs) -> anyhow::Result<Exit> {
    let pool = invocation.open(OpenMode::Write)?;
    let (_, opened_with) = invocation.keys(&pool)?;
    let Some(old) = opened_with else {
        bail!("the pool is not encrypted and has no password");
    };
    if matches!(old.slot.derivation, KeyDerivation::Recovery) {
        bail!("a recovery key opened the pool; use key add, then key remove for the lost key");
    }
    let args = NewKeyArgs {
        new_password_file: args.new_password_file.clone(),
        label: Some(args.label.clone().unwrap_or_else(|| old.slot.label.clone())),
    };
    let slot = add_password(invocation, &pool, &args)?;
    pool.keys().remove(&old.name())?;
    say(invocation, "changed", &slot)
}

fn recovery(invocation: &Invocation, file: &Path, label: &str) -> anyhow::Result<Exit> {
    let pool = invocation.open(OpenMode::Write)?;
    // In a server too, only a user who has a key may make another one.
    invocation.keys(&pool)?;
    let key = RecoveryKey::random(&SystemRandom);
    key.write(file)?;
    let secret = SecretKey::Recovery(key.0);
    let new = NewSecret {
        secret: &secret,
        label,
    };
    match pool.keys().add(&new) {
        Ok(slot) => say(invocation, "added", &slot),
        Err(e) => {
            // Without its slot, the key opens nothing.
            let _ = std::fs::remove_file(file);
            Err(e.into())
        }
    }
}

fn list(invocation: &Invocation) -> anyhow::Result<Exit> {
    let pool = invocation.open(OpenMode::Read)?;
    let (slots, opened_with) = invocation.keys(&pool)?;
    let Some(opened_with) = opened_with.map(|slot| slot.name()) else {
        bail!("the pool is not encrypted and has no keys");
    };
    let mut table = Table::new(["", "Name", "Kind", "Version", "Label", "Created"], &[]);
    for slot in &slots {
        let name = slot.name();
        let current = opened_with == name;
        let created = slot.slot.created;
        invocation.console.message(
            described("key", slot)
                .boolean("current", current)
                .time("created", created),
        )?;
        table.row([
            if current { "*" } else { "" }.to_owned(),
            name,
            kind(slot).to_owned(),
            slot.slot.version().to_string(),
            slot.slot.label.clone(),
            calendar::local(created, &invocation.zone),
        ]);
    }
    table
        .lines()
        .iter()
        .try_for_each(|line| invocation.console.line(line))?;
    Ok(Exit::Done)
}

fn remove(invocation: &Invocation, beginning: &str, yes: bool) -> anyhow::Result<Exit> {
    let pool = invocation.open(OpenMode::Write)?;
    let (slots, opened_with) = invocation.keys(&pool)?;
    let wanted = beginning.to_ascii_lowercase();
    let mut fitting = slots.iter().filter(|slot| slot.name().starts_with(&wanted));
    let slot = match (fitting.next(), fitting.next()) {
        _ if wanted.is_empty() => bail!("no key named (see quintet key list)"),
        (Some(only), None) => only,
        (Some(_), Some(_)) => bail!("several keys begin with {wanted}; give more digits"),
        (None, _) => bail!("there is no key {wanted} (see quintet key list)"),
    };
    if opened_with.is_some_and(|current| current == *slot) {
        bail!(
            "this key opened the pool; open the pool with another key to remove it, or use key passwd"
        );
    }
    let question = format!(
        "Remove {} {}? It will never open the pool again.",
        kind(slot),
        slot.name()
    );
    if !yes && can_ask(&invocation.context) && !is_wanted(&invocation.context, &question)? {
        bail!("nothing was removed");
    }
    pool.keys().remove(&slot.name())?;
    say(invocation, "removed", slot)
}

fn add_password(
    invocation: &Invocation,
    pool: &Pool,
    args: &NewKeyArgs,
) -> anyhow::Result<SlotInfo> {
    let source = match &args.new_password_file {
        Some(file) => PasswordSource::File(file.clone()),
        None => PasswordSource::Terminal,
    };
    if let Some(warning) = exposed_secret(&source, &invocation.context.environment) {
        invocation.console.warn(warning);
    }
    let secret = source.read_new(&invocation.context)?;
    let label = args.label.clone().unwrap_or_else(|| invocation.user());
    let new = NewSecret {
        secret: &secret,
        label: &label,
    };
    Ok(pool.keys().add(&new)?)
}

fn kind(slot: &SlotInfo) -> &'static str {
    match slot.slot.derivation {
        KeyDerivation::Argon2id { .. } => "password",
        KeyDerivation::Recovery => "recovery",
    }
}

fn described(message_type: &str, slot: &SlotInfo) -> Object {
    Object::message(message_type)
        .text("id", &slot.name())
        .text("kind", kind(slot))
        .integer("version", slot.slot.version())
        .text("label", &slot.slot.label)
}

fn say(invocation: &Invocation, done: &str, slot: &SlotInfo) -> anyhow::Result<Exit> {
    let console = &invocation.console;
    console.message(described("summary", slot).text("action", done))?;
    let (name, kind, label) = (slot.name(), kind(slot), &slot.slot.label);
    console.line(format!("{done} {kind} {name} ({label})"))?;
    Ok(Exit::Done)
}
