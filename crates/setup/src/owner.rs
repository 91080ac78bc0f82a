//! Runs a command of root again as the owner of a pool. The program calls this before a command
//! that writes to the pool.
//!
//! Invariant: only for pools of the user quintet. The process is replaced, so its exit code and
//! streams are those of the command.

use crate::{CACHE, USER};
use anyhow::anyhow;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use terminal::command_context::CommandContext;

/// As in the units: to read files of others, and leave no access time.
const CAPABILITIES: &str = "+dac_read_search,+fowner";

/// The user quintet, as the owner of a pool.
pub struct Owner<'a> {
    /// Directory of the pool.
    pub pool: &'a Path,
    uid: u32,
    gid: u32,
}

impl<'a> Owner<'a> {
    /// Returns the owner if it is the user quintet.
    pub fn of(pool: &'a Path) -> Option<Self> {
        let metadata = pool.metadata().ok()?;
        let (uid, gid) = (metadata.uid(), metadata.gid());
        let is_quintet = uid != 0 && name_of(uid).as_deref() == Some(USER);
        is_quintet.then_some(Self { pool, uid, gid })
    }

    /// Replaces this process by this command line of `program`, as the owner. Returns only an
    /// error.
    pub fn run_again(
        &self,
        program: &Path,
        context: &CommandContext,
        arguments: &[OsString],
    ) -> anyhow::Error {
        let mut again = Command::new("setpriv");
        again.args(["--clear-groups", "--inh-caps", CAPABILITIES]);
        again.args(["--ambient-caps", CAPABILITIES]);
        again.arg(format!("--reuid={}", self.uid));
        again.arg(format!("--regid={}", self.gid));
        again.arg("--").arg(program);
        again.args(arguments.iter().skip(1));
        let environment = &context.environment;
        let places = ["QUINTET_CACHE_DIR", "XDG_CACHE_HOME"];
        if places.iter().all(|name| environment.value(name).is_none()) {
            again.env("QUINTET_CACHE_DIR", CACHE);
        }
        let error = again.exec();
        anyhow!(
            "the pool in {} belongs to the user {USER}, and setpriv cannot be run ({}); install util-linux, or run \
             this as that user: runuser -u {USER} -- quintet ...",
            self.pool.display(),
            units::reason(&error)
        )
    }
}

fn name_of(uid: u32) -> Option<String> {
    let mut getent = Command::new("getent");
    getent
        .args(["passwd", &uid.to_string()])
        .stderr(Stdio::null());
    let line = String::from_utf8(getent.output().ok()?.stdout).ok()?;
    line.split(':').next().map(str::to_owned)
}
