//! Runs a command of root again as the user quintet, if the pool is that user's. [`super::start`]
//! calls this.
//!
//! Invariant: root leaves no file in that pool that its owner cannot change, and reaches the
//! owner's server. Commands that only read stay root's, because they write files for root
//! (`restore`, `dump`, `mount`); the files that these make in the pool belong to the owner of its
//! directory (`media::LocalDisk`). Commands in pools of other users stay root's too.

use super::for_clients::Need;
use super::invocation::Invocation;
use crate::settings::Settings;
use anyhow::bail;
use command_line::{Cli, Command, ExportArgs};
use setup::owner::Owner;
use setup::{USER, configured};
use std::ffi::OsString;
use std::path::Path;
use terminal::command_context::CommandContext;
use terminal::console::Console;

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
        Command::Run(args) => {
            let read = configured::configuration(context, args.file.config.as_deref());
            // Errors are reported by the command itself.
            read.ok().map(|read| read.pool.path.value)
        }
        Command::Init(_) => None,
        Command::Serve(args) if !args.read_only => settings.pool().ok().map(Into::into),
        command if Need::of(command) == Need::Nothing => None,
        _ => settings.pool().ok().map(Into::into),
    };
    let Some(owner) = pool.as_deref().and_then(Owner::of) else {
        return Ok(());
    };
    if matches!(cli.command, Command::Serve(_)) {
        let pool = owner.pool.display();
        bail!("the pool in {pool} belongs to the user {USER}; run systemctl start quintet");
    }
    if Need::of(&cli.command) != Need::Live {
        let pool = owner.pool.display();
        console.note(format_args!(
            "going on as the user {USER}, who owns the pool in {pool}"
        ));
    }
    console.flush()?;
    let program = std::env::current_exe()?;
    Err(owner.run_again(&program, context, arguments))
}

/// The same for the export of a volume, which writes to the pool: its journal is applied. Fails if
/// it writes a file of root.
pub(super) fn go_on_exporting(invocation: &Invocation, args: &ExportArgs) -> anyhow::Result<()> {
    let is_root = rustix::process::geteuid().is_root();
    let pool = invocation.settings.pool()?;
    let Some(owner) = Owner::of(pool).filter(|_| is_root) else {
        return Ok(());
    };
    if args.out != Path::new("-") {
        let (pool, name, out) = (owner.pool.display(), &args.image, args.out.display());
        bail!(
            "the pool in {pool} belongs to the user {USER}, who alone exports volumes and may not write your files; \
             run quintet export {name} - >{out}, or export a snapshot of it (quintet volume snapshot {name}@NAME)"
        );
    }
    let program = std::env::current_exe()?;
    Err(owner.run_again(&program, &invocation.context, &invocation.arguments))
}
