//! What a command is run for: with `--quiet` the output that is asked for is printed, any other only when
//! the run does not end with 0.
//!
//! Invariant: a dry run, a list and a status are run for what they print. Called by the program, before it runs
//! a command.

use crate::cli::{
    Command, DefragCommand, KeyCommand, ParityCommand, QosCommand, ScrubCommand, VolumeCommand,
};

/// True when the lines that the command prints are what it is run for.
pub(super) fn is_asked_for(command: &Command) -> bool {
    match command {
        Command::Snapshots(_)
        | Command::Ls(_)
        | Command::Find(_)
        | Command::Diff(_)
        | Command::Dump(_)
        | Command::Stats(_)
        | Command::Status(_)
        | Command::Top(_)
        | Command::Generate(_) => true,
        Command::Key(command) => matches!(command, KeyCommand::List),
        Command::Parity(command) => matches!(command, ParityCommand::Show),
        Command::Qos(command) => matches!(command, QosCommand::Show),
        Command::Scrub(args) => matches!(args.command, Some(ScrubCommand::Status)),
        Command::Defrag(args) => {
            args.dry_run || matches!(args.command, Some(DefragCommand::Status))
        }
        Command::Volume(command) => match command {
            VolumeCommand::List => true,
            VolumeCommand::Rollback(args) => args.dry_run,
            VolumeCommand::Delete(args) => args.dry_run,
            VolumeCommand::Resize(args) => args.dry_run,
            VolumeCommand::Create(_) | VolumeCommand::Clone(_) | VolumeCommand::Snapshot { .. } => {
                false
            }
        },
        Command::Backup(args) => args.dry_run,
        Command::Restore(args) => args.dry_run,
        Command::Import(args) => args.dry_run,
        Command::Copy(args) => args.dry_run,
        Command::Forget(args) => args.dry_run,
        Command::Gc(args) => args.dry_run,
        Command::Repair(args) => args.dry_run,
        // Without names it lists.
        Command::Undelete(args) => args.snapshots.is_empty(),
        Command::Init(_)
        | Command::Tag(_)
        | Command::Export(_)
        | Command::Check(_)
        | Command::Mount(_)
        | Command::Serve(_)
        | Command::MountGuard(_) => false,
    }
}
