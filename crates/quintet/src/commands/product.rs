//! Decides which commands are run for their output. `commands` calls this: with `--quiet`, output
//! of these commands is printed, and output of others only if the run does not end with exit code
//! 0.
//!
//! Invariant: dry runs, lists and status are run for their output.

use command_line::{
    Command, DefragCommand, KeyCommand, ParityCommand, PolicyCommand, QosCommand, ScrubCommand,
    VolumeCommand,
};

/// Returns true if the user runs the command for its output.
pub(super) fn is_asked_for(command: &Command) -> bool {
    match command {
        Command::Snapshots(_)
        | Command::Ls(_)
        | Command::Find(_)
        | Command::Diff(_)
        | Command::Dump(_)
        | Command::Stats(_)
        | Command::Status(_)
        | Command::Host(_)
        | Command::Top(_)
        | Command::Config(_)
        | Command::Notify(_)
        | Command::Generate(_)
        | Command::Patterns => true,
        Command::Key(command) => matches!(command, KeyCommand::List),
        Command::Parity(command) => matches!(command, ParityCommand::Show),
        Command::Policy(command) => !matches!(command, PolicyCommand::Set(_)),
        Command::Qos(command) => matches!(command, QosCommand::Show),
        Command::Scrub(args) => matches!(args.command, Some(ScrubCommand::Status)),
        Command::Defrag(args) => {
            args.dry_run || matches!(args.command, Some(DefragCommand::Status))
        }
        Command::Volume(command) => match command {
            VolumeCommand::List | VolumeCommand::Info(_) => true,
            VolumeCommand::Rollback(args) => args.dry_run,
            VolumeCommand::Delete(args) => args.dry_run,
            VolumeCommand::Resize(args) => args.dry_run,
            VolumeCommand::Create(_)
            | VolumeCommand::Clone(_)
            | VolumeCommand::Rename(_)
            | VolumeCommand::Snapshot { .. } => false,
        },
        Command::Setup(args) => args.dry_run,
        Command::Backup(args) => args.dry_run,
        Command::Restore(args) => args.dry_run,
        Command::Import(args) => args.dry_run,
        Command::Copy(args) => args.dry_run,
        Command::Forget(args) => args.dry_run,
        Command::Rewrite(args) => args.dry_run,
        Command::Gc(args) => args.dry_run,
        Command::Repair(args) => args.dry_run,
        Command::Upgrade(args) => args.dry_run,
        // Without names it lists.
        Command::Undelete(args) => args.snapshots.is_empty(),
        Command::Init(_)
        | Command::Tag(_)
        | Command::Export(_)
        | Command::Check(_)
        | Command::Run(_)
        | Command::Mount(_)
        | Command::Serve(_)
        | Command::MountGuard(_) => false,
    }
}
