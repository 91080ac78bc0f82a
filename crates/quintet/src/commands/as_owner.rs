//! Runs a command of root again as the user quintet, if the pool is that user's. [`super::start`]
//! calls this.
//!
//! Invariant: root leaves no file in that pool that its owner cannot change, and reaches the
//! owner's server. Commands that only read stay root's, because they write files for root
//! (`restore`, `dump`, `mount`). Pools of other users are left as they are.

use super::for_clients::Need;
use crate::cli::{Cli, Command};
use crate::configured;
use crate::settings::Settings;
use anyhow::{anyhow, bail};
use configuration::Configuration;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command as Program, Stdio};
use terminal::command_context::CommandContext;
use terminal::console::Console;

/// The user that `setup` and the packages make.
pub(super) const USER: &str = "quintet";
/// Directory in which that user remembers pools, as the units say.
pub(super) const CACHE: &str = "/var/cache/quintet/quintet";
/// As in the units: to read files of others, and leave no access time.
const CAPABILITIES: &str = "+dac_read_search,+fowner";

/// Replaces this process if the command is the owner's. Fails if that is not possible.
pub(super) fn go_on(
    context: &CommandContext,
    cli: &Cli,
    settings: &Settings,
    arguments: &[OsString],
    console: &Console,
) -> anyhow::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let pool = match &cli.command {
        Command::Run(args) => configured_pool(context, args.file.config.as_deref()),
        Command::Init(_) => None,
        Command::Serve(args) if args.command.is_none() => settings.pool().ok().map(Into::into),
        command if Need::of(command) == Need::Nothing => None,
        _ => settings.pool().ok().map(Into::into),
    };
    let owner = pool.as_ref().and_then(|pool| pool.metadata().ok());
    let Some((pool, owner)) = pool.zip(owner) else {
        return Ok(());
    };
    if owner.uid() == 0 || name_of(owner.uid()).as_deref() != Some(USER) {
        return Ok(());
    }
    let pool = pool.display();
    if matches!(cli.command, Command::Serve(_)) {
        bail!("the pool in {pool} belongs to the user {USER}; run systemctl start quintet");
    }
    console.note(format_args!(
        "going on as the user {USER}, who owns the pool in {pool}"
    ));
    let mut program = Program::new("setpriv");
    program.args(["--clear-groups", "--inh-caps", CAPABILITIES]);
    program.args(["--ambient-caps", CAPABILITIES]);
    program.arg(format!("--reuid={}", owner.uid()));
    program.arg(format!("--regid={}", owner.gid()));
    program.arg("--").arg(std::env::current_exe()?);
    program.args(arguments.iter().skip(1));
    let environment = &context.environment;
    let is_set = |name: &&str| environment.value(name).is_some();
    if !["QUINTET_CACHE_DIR", "XDG_CACHE_HOME"]
        .iter()
        .any(|name| is_set(&name))
    {
        program.env("QUINTET_CACHE_DIR", CACHE);
    }
    console.flush()?;
    let error = program.exec();
    Err(anyhow!(
        "the pool in {pool} belongs to the user {USER}, and setpriv cannot be run ({}); install util-linux, or run \
         this as that user: runuser -u {USER} -- quintet ...",
        units::reason(&error)
    ))
}

/// Returns the pool of the file. Errors are reported by the command itself.
fn configured_pool(context: &CommandContext, given: Option<&std::path::Path>) -> Option<PathBuf> {
    let path = configured::path(given, context);
    let text = configured::text(context, &path).ok()?;
    let read = Configuration::parse(&text).ok()?;
    Some(read.pool.path.value)
}

fn name_of(uid: u32) -> Option<String> {
    let mut getent = Program::new("getent");
    getent
        .args(["passwd", &uid.to_string()])
        .stderr(Stdio::null());
    let line = String::from_utf8(getent.output().ok()?.stdout).ok()?;
    line.split(':').next().map(str::to_owned)
}
