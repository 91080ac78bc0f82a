//! User, directories, configuration file and passwords. [`crate::apply`] calls
//! this.
//!
//! Invariant: passwords belong to the user quintet, mode 0600: units and commands read them as that
//! user. The configuration file is root's and its group reads it. Nothing that is there is
//! rewritten; at most the user is let in.

use crate::steps::{Owner, Steps};
use crate::{CACHE, SetupPlan, USER};
use anyhow::{Context, bail};
use configuration::{Configuration, Located};
use media::{Random, SystemRandom};
use std::path::{Path, PathBuf};

const DIRECTORY: &str = "/etc/quintet";
const FIRST: &str = "/var/cache/quintet/setup.toml";
const PASSWORD: &str = "/etc/quintet/password";
/// Makes the user, also for the packages.
const SYSUSERS: &str = include_str!("../../../packaging/sysusers.conf");
/// Bytes of randomness in a password: as many as in a key.
const PASSWORD_BYTES: usize = 32;

/// Makes the user.
pub(crate) fn account(steps: &mut Steps<'_>) -> anyhow::Result<()> {
    if steps.account()?.is_some() {
        return Ok(());
    }
    steps.step(&format!("make the user {USER}"), |steps| {
        let line = SYSUSERS.lines().find(|line| line.starts_with("u "));
        let mut sysusers = steps.program("systemd-sysusers");
        sysusers.arg("--inline").arg(line.unwrap_or_default());
        let Err(error) = Steps::call(sysusers) else {
            return Ok(());
        };
        let mut useradd = steps.program("useradd");
        useradd.args(["--system", "--user-group", "--no-create-home"]);
        useradd.args([
            "--home-dir",
            "/var/cache/quintet",
            "--shell",
            "/usr/sbin/nologin",
            USER,
        ]);
        Steps::call(useradd).with_context(|| format!("{error:#}"))
    })
}

/// Makes the directories of settings and of memory.
pub(crate) fn directories(steps: &mut Steps<'_>) -> anyhow::Result<()> {
    let directory = Path::new(DIRECTORY);
    let account = steps.account()?;
    let is_open = account.is_some_and(|account| steps.passes(account, "-x", directory));
    if !is_open {
        steps.step(
            &format!("open {DIRECTORY} to the group {USER} (0750)"),
            |steps| steps.directory(directory, Owner::RootForGroup, 0o750),
        )?;
    }
    for directory in ["/var/cache/quintet", CACHE] {
        let directory = Path::new(directory);
        if !directory.is_dir() {
            let what = format!("make {} (0700)", directory.display());
            steps.step(&what, |steps| {
                steps.directory(directory, Owner::Quintet, 0o700)
            })?;
        }
    }
    Ok(())
}

/// Writes the configuration file, or lets the user read it.
pub(crate) fn configuration(steps: &mut Steps<'_>, plan: &SetupPlan) -> anyhow::Result<()> {
    let path = &plan.path;
    let Some(text) = &plan.text else {
        return let_read(steps, path, Owner::RootForGroup, 0o640);
    };
    let what = format!("write {} (0640, root:{USER})", path.display());
    steps.step(&what, |steps| {
        // A purge of the package removes a file that is still like this one.
        steps.write(Path::new(FIRST), text.as_bytes(), Owner::Quintet, 0o600)?;
        steps.write(path, text.as_bytes(), Owner::RootForGroup, 0o640)
    })
}

/// Makes the pool's password, and lets the user read those of the pools.
pub(crate) fn passwords(
    steps: &mut Steps<'_>,
    configuration: &Configuration,
) -> anyhow::Result<()> {
    if let Some(file) = &configuration.pool.password.file
        && !file.value.exists()
    {
        let path = &file.value;
        steps.step(
            &format!("make a password in {} (0600, {USER})", path.display()),
            |steps| steps.write(path, password().as_bytes(), Owner::Quintet, 0o600),
        )?;
    }
    let copies = configuration.copies.iter().map(|copy| &copy.password.file);
    let files = std::iter::once(&configuration.pool.password.file).chain(copies);
    for Located { value, .. } in files.flatten().filter(|file| file.value.exists()) {
        let_read(steps, value, Owner::Quintet, 0o600)?;
    }
    Ok(())
}

/// Lets the user quintet read a file that it cannot read.
fn let_read(steps: &mut Steps<'_>, path: &Path, owner: Owner, mode: u32) -> anyhow::Result<()> {
    let can_read = |steps: &Steps<'_>| -> anyhow::Result<bool> {
        let account = steps.account()?;
        Ok(account.is_some_and(|account| steps.passes(account, "-r", path)))
    };
    if can_read(steps)? {
        return Ok(());
    }
    let place = path.display();
    steps.step(
        &format!("let the user {USER} read {place} ({mode:04o})"),
        |steps| {
            steps.give(path, owner, mode)?;
            match can_read(steps)? {
                true => Ok(()),
                false => bail!("a directory above it is closed; move it to {DIRECTORY}"),
            }
        },
    )
}

/// Returns a line with a random password.
fn password() -> String {
    let mut bytes = [0; PASSWORD_BYTES];
    SystemRandom.fill(&mut bytes);
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits + "\n"
}

/// Returns the text of a new configuration file.
pub(crate) fn first_text(pool: &Path, backup: &[PathBuf]) -> String {
    let text = |path: &Path| toml_text(&path.display().to_string());
    let paths: Vec<_> = backup.iter().map(|path| text(path)).collect();
    let (pool, paths) = (text(pool), paths.join(", "));
    format!(
        r#"# Written by quintet setup. What is backed up, and when; docs/tasks.md has all keys.
# After changes: quintet config check, then quintet setup, which writes the timers again.
[pool]
path = {pool}
password-file = "{PASSWORD}"

[sources.system]
paths = [{paths}]
exclude-caches = true
when = "daily"

# Which snapshots stay.
[retention]
keep-daily = 7
keep-weekly = 5
keep-monthly = 12
when = "daily"

# Reads one seventh of the data each time.
[check]
when = "weekly"

# Who hears of problems. Try it with: quintet notify --test
#[notify]
#url = "https://ntfy.sh/your-secret-topic"
#format = "ntfy"
"#
    )
}

/// Writes a string of TOML.
fn toml_text(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_text_is_a_file_without_mistakes() {
        let backup = ["/home".into(), "/a \"b\"\\c".into()];
        let text = first_text(Path::new("/srv/the pool"), &backup);
        let read = Configuration::parse(&text).unwrap();
        assert_eq!(read.pool.path.value, Path::new("/srv/the pool"));
        let jobs: Vec<_> = read.jobs().into_iter().map(|job| job.name).collect();
        assert_eq!(jobs, ["system", "forget", "check", "watch"]);
        assert!(read.jobs()[0].describe().contains("/a \"b\"\\c"));
    }

    #[test]
    fn passwords_are_random_lines() {
        assert_eq!(password().len(), 2 * PASSWORD_BYTES + 1);
        assert_ne!(password(), password());
    }
}
