//! The steps of a setup: each is said on one line, and done unless it is a dry run.
//! [`crate::apply`] calls this.
//!
//! Invariant: what a dry run says is what the real run says. A file is replaced as a whole.

use anyhow::{Context, bail};
use std::ffi::OsStr;
use std::fs::{OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use terminal::json::Object;
use terminal::shell::Shell;

/// The account that owns the pool and runs the jobs.
#[derive(Clone, Copy, Debug)]
pub struct Account {
    /// Number of the user.
    pub uid: u32,
    /// Number of its group.
    pub gid: u32,
}

/// Owner of a file: the user quintet, or root with the group of quintet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner {
    Root,
    RootForGroup,
    Quintet,
}

/// The steps so far.
pub struct Steps<'a> {
    /// The user's side.
    pub shell: &'a Shell,
    /// Say the steps only.
    pub dry_run: bool,
    /// Number of steps.
    pub steps: u64,
}

impl Steps<'_> {
    /// Says a step and does it.
    pub(crate) fn step(
        &mut self,
        what: &str,
        act: impl FnOnce(&Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.steps += 1;
        let console = &self.shell.console;
        console.line(what)?;
        console.message(Object::message("step").text("action", what))?;
        match self.dry_run {
            true => Ok(()),
            false => act(self).with_context(|| format!("cannot {what}")),
        }
    }

    /// Returns the account if there is one.
    pub(crate) fn account(&self) -> anyhow::Result<Option<Account>> {
        let found = self
            .program("getent")
            .args(["passwd", crate::USER])
            .output();
        let found = found.context("cannot run getent")?;
        let line = String::from_utf8_lossy(&found.stdout).into_owned();
        let mut fields = line.trim().split(':').skip(2);
        let mut number = || fields.next()?.parse().ok();
        let (uid, gid) = (number(), number());
        Ok(uid.zip(gid).map(|(uid, gid)| Account { uid, gid }))
    }

    /// Returns the account, which an earlier step has made.
    pub(crate) fn made_account(&self) -> anyhow::Result<Account> {
        let account = self.account()?;
        account.with_context(|| format!("there is no user {}", crate::USER))
    }

    /// Gives a file to an owner.
    pub(crate) fn give(&self, path: &Path, owner: Owner, mode: u32) -> anyhow::Result<()> {
        let (uid, gid) = match owner {
            Owner::Root => (0, 0),
            Owner::RootForGroup => (0, self.made_account()?.gid),
            Owner::Quintet => {
                let account = self.made_account()?;
                (account.uid, account.gid)
            }
        };
        chown(path, Some(uid), Some(gid))?;
        Ok(std::fs::set_permissions(
            path,
            Permissions::from_mode(mode),
        )?)
    }

    /// Replaces a file as a whole.
    pub(crate) fn write(
        &self,
        path: &Path,
        bytes: &[u8],
        owner: Owner,
        mode: u32,
    ) -> anyhow::Result<()> {
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        let new = Path::new(&new);
        // Of a run that was killed.
        let _ = std::fs::remove_file(new);
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(new)?;
        file.write_all(bytes)?;
        self.give(new, owner, mode)?;
        file.sync_all()?;
        Ok(std::fs::rename(new, path)?)
    }

    /// Makes a directory, with root's above it.
    pub(crate) fn directory(&self, path: &Path, owner: Owner, mode: u32) -> anyhow::Result<()> {
        std::fs::create_dir_all(path)?;
        self.give(path, owner, mode)
    }

    /// Prepares a program whose output is kept.
    pub(crate) fn program(&self, name: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(name);
        let environment = &self.shell.context.environment;
        command.env_clear().envs(environment.all());
        command.stdin(Stdio::null());
        command
    }

    /// The same, as the user quintet.
    pub(crate) fn program_as(&self, name: impl AsRef<OsStr>, account: Account) -> Command {
        let mut command = self.program(name);
        command.uid(account.uid).gid(account.gid).current_dir("/");
        command
    }

    /// Returns true if the user quintet passes `test OPTION PATH`.
    pub(crate) fn passes(&self, account: Account, option: &str, path: &Path) -> bool {
        let mut test = self.program_as("test", account);
        test.arg(option).arg(path);
        test.status().is_ok_and(|status| status.success())
    }

    /// Runs a program; its failure has its last words.
    pub(crate) fn call(mut command: Command) -> anyhow::Result<()> {
        let name = command.get_program().to_string_lossy().into_owned();
        let output = command
            .output()
            .with_context(|| format!("cannot run {name}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            bail!("{name} failed ({}): {said}", output.status);
        }
        Ok(())
    }
}
