//! Makes the pool as the user quintet. [`crate::apply`] calls this.
//!
//! Invariant: the recovery key is shown once on the terminal, and written only to the file that the
//! user named. On its way it is in a file of `/run`, which is memory.

use crate::steps::{Owner, Steps};
use crate::{CACHE, SetupPlan, USER};
use anyhow::{Context, bail};
use configuration::Configuration;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// File that every pool has.
const CONFIG: &str = "config";

/// Returns true if there is a pool.
pub fn is_there(pool: &Path) -> bool {
    pool.join(CONFIG).exists()
}

/// Checks what making or using the pool needs. Returns the file for the recovery key.
pub fn check_first<'a>(
    steps: &Steps<'_>,
    configuration: &Configuration,
    recovery: Option<&'a Path>,
) -> anyhow::Result<Option<&'a Path>> {
    let pool = &configuration.pool.path.value;
    let place = pool.display();
    if is_there(pool) {
        let owner = pool.metadata()?.uid();
        if steps.account()?.is_none_or(|account| account.uid != owner) {
            bail!(
                "the pool in {place} does not belong to the user {USER}, who runs the jobs; make that user \
                 (systemd-sysusers, or useradd --system {USER}) and run chown -R {USER}: {place}"
            );
        }
        return Ok(None);
    }
    let password = &configuration.pool.password;
    if password.file.is_none() && password.command.is_none() {
        bail!("a timer cannot be asked for a password; set password-file in [pool]");
    }
    if let Some(file) = recovery.filter(|file| file.exists()) {
        bail!(
            "{} exists; name another file for the recovery key",
            file.display()
        );
    }
    let has_terminal = steps.shell.context.terminal().is_some();
    if recovery.is_none() && !has_terminal && !steps.dry_run {
        bail!(
            "there is no terminal to show the recovery key on; add --recovery-key-file FILE, on another medium"
        );
    }
    Ok(recovery)
}

/// Makes the pool if there is none.
pub(crate) fn make(
    steps: &mut Steps<'_>,
    plan: &SetupPlan,
    recovery: Option<&Path>,
) -> anyhow::Result<()> {
    let pool = plan.configuration.pool.path.value.as_path();
    if is_there(pool) {
        return Ok(());
    }
    let to = recovery.map_or_else(String::new, |file| {
        format!(", and its recovery key in {}", file.display())
    });
    let what = format!("make the pool in {} as the user {USER}{to}", pool.display());
    steps.step(&what, |steps| {
        if !pool.is_dir() {
            steps.directory(pool, Owner::Quintet, 0o700)?;
        } else if pool.read_dir()?.next().is_none() {
            // Such as a disk that was just mounted.
            steps.give(pool, Owner::Quintet, 0o700)?;
        }
        let scratch = PathBuf::from(format!("/run/quintet-setup.{}", std::process::id()));
        steps.directory(&scratch, Owner::Quintet, 0o700)?;
        let made = init(steps, plan, &scratch.join("key"), recovery);
        std::fs::remove_dir_all(&scratch).context("remove the recovery key below /run by hand")?;
        made
    })
}

fn init(
    steps: &Steps<'_>,
    plan: &SetupPlan,
    key: &Path,
    recovery: Option<&Path>,
) -> anyhow::Result<()> {
    let account = steps.made_account()?;
    let quintet = || {
        let mut quintet = steps.program_as(&plan.program, account);
        quintet.env("QUINTET_CACHE_DIR", CACHE);
        for name in [
            "QUINTET_PASSWORD",
            "QUINTET_PASSWORD_FILE",
            "QUINTET_PASSWORD_COMMAND",
        ] {
            quintet.env_remove(name);
        }
        quintet.args(plan.configuration.options());
        quintet
    };
    let mut init = quintet();
    init.arg("init").arg("--recovery-key-file").arg(key);
    Steps::call(init)?;
    let text = std::fs::read_to_string(key)?;
    // The first reader makes the directory of readers, which is then not root's.
    let mut reader = quintet();
    reader.args(["--quiet", "snapshots"]);
    let read = Steps::call(reader);
    let kept = recovery.map(|file| write_key(file, &text, &plan.configuration.pool.path.value));
    if let Some(mut terminal) = steps.shell.context.terminal() {
        let why = "The recovery key of the pool, shown only now. Print it or write it down: it opens the pool \
                   if the password is lost.";
        write!(terminal, "\n{why}\n\n    {}\n\n", text.trim())?;
    }
    if let Some(kept) = kept {
        let warning =
            kept.context("cannot write the recovery key; make another: quintet key recovery")?;
        warning
            .iter()
            .for_each(|warning| steps.shell.console.warn(warning));
    }
    read
}

/// Writes the recovery key. Returns a warning if it is beside the pool.
fn write_key(file: &Path, text: &str, pool: &Path) -> anyhow::Result<Option<String>> {
    let mut options = OpenOptions::new();
    let mut to = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)?;
    to.write_all(text.as_bytes())?;
    to.sync_all()?;
    let is_beside = file.metadata()?.dev() == pool.metadata()?.dev();
    Ok(is_beside.then(|| {
        let place = file.display();
        format!("{place} is on the disk of the pool; move it to another medium")
    }))
}
