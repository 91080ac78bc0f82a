//! Commands that a server runs for others (decision 18): which, and how.
//!
//! Invariant: what needs the pool's lock runs in the server that has it; what only reads runs in its
//! own process, server or not, and takes turns at the device where the server does. The server checks again what it is asked to run. Called by the
//! command line's start and by `serve`.

use super::run_for;
use crate::caller::Caller;
use crate::cli::{
    Cli, Command, DefragCommand, KeyCommand, ParityCommand, QosCommand, ScrubCommand, VolumeCommand,
};
use crate::control::{Commands, Request, View};
use crate::exit::Exit;
use crate::held::Held;
use crate::settings::{Environment, Settings, receiving_pool};
use clap::Parser;
use device::DeviceQueue;
use media::Asker;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::Origin;

/// What a command needs of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Nothing: it reads, or it is a server itself.
    Nothing,
    /// What only a server knows, if there is one.
    Live,
    /// The pool, for writing.
    Writing {
        /// It opens files of the user.
        files: bool,
    },
}

impl Need {
    /// Of a command as it was given.
    pub fn of(command: &Command) -> Self {
        let files = true;
        let unless = |only_looks: bool, need| if only_looks { Self::Nothing } else { need };
        match command {
            Command::Backup(args) => unless(args.dry_run, Self::Writing { files }),
            Command::Import(args) => unless(args.dry_run, Self::Writing { files }),
            Command::Copy(args) if args.pause || args.resume => Self::Live,
            // Reads here, and writes where no server is; only a server knows what is in memory.
            Command::Copy(args) => unless(args.dry_run, Self::Writing { files }),
            Command::Forget(args) => unless(args.dry_run, Self::Writing { files: false }),
            Command::Repair(args) => {
                let files = args.replica.replica.is_some();
                unless(args.dry_run, Self::Writing { files })
            }
            Command::Mount(args) => unless(args.read_only, Self::Writing { files }),
            Command::Gc(args) if args.set_trash_minimum.is_some() => Self::Writing { files },
            // Only a server knows what its clients have open.
            Command::Gc(args) if args.dry_run => Self::Live,
            Command::Gc(_) => Self::Writing { files: false },
            Command::Defrag(args) if matches!(args.command, Some(DefragCommand::Status)) => {
                Self::Live
            }
            Command::Defrag(args) => unless(args.dry_run, Self::Writing { files: false }),
            Command::Undelete(args) => {
                let only_lists = args.snapshots.is_empty();
                unless(only_lists, Self::Writing { files: false })
            }
            Command::Tag(_) => Self::Writing { files: false },
            Command::Status(_)
            | Command::Top(_)
            | Command::Qos(QosCommand::Show)
            | Command::Volume(VolumeCommand::List) => Self::Live,
            Command::Qos(_) => Self::Writing { files: false },
            Command::Scrub(args) => {
                let pass = match &args.command {
                    Some(ScrubCommand::Status) => return Self::Live,
                    Some(ScrubCommand::Start(pass)) => pass,
                    _ => &args.pass,
                };
                let files = pass.replica.replica.is_some();
                Self::Writing { files }
            }
            Command::Volume(_) => Self::Writing { files: false },
            Command::Parity(ParityCommand::Show) => Self::Nothing,
            Command::Parity(_) => Self::Writing { files: false },
            Command::Key(KeyCommand::List) => Self::Nothing,
            Command::Key(_) => Self::Writing { files },
            Command::Init(_)
            | Command::Restore(_)
            | Command::Snapshots(_)
            | Command::Ls(_)
            | Command::Find(_)
            | Command::Diff(_)
            | Command::Dump(_)
            | Command::Export(_)
            | Command::Check(_)
            | Command::Stats(_)
            | Command::Serve(_)
            | Command::Generate(_)
            | Command::MountGuard(_) => Self::Nothing,
        }
    }
}

/// Directories of the pools whose servers may run a command; the first that has one does.
pub(super) fn pools_of(
    command: &Command,
    settings: &Settings,
    environment: &Environment,
) -> Vec<PathBuf> {
    let mut pools = Vec::new();
    // What cannot be known here the command itself says.
    if let Command::Copy(args) = command
        && !(args.pause || args.resume)
        && let Ok(to) = receiving_pool(&args.to, environment)
    {
        pools.push(to.path);
    }
    pools.extend(settings.pool().ok().map(Path::to_owned));
    pools
}

/// Whether the user's own programs would run in the server: they need the variables that the user
/// has.
pub(super) fn runs_programs(
    command: &Command,
    arguments: &[OsString],
    environment: &Environment,
) -> bool {
    let names_one = |argument: &OsString| {
        let argument = argument.as_bytes();
        argument.starts_with(b"--") && argument.windows(16).any(|w| w == b"password-command")
    };
    matches!(command, Command::Backup(args) if args.stdin_from_command)
        || arguments.iter().any(names_one)
        || environment.has_password_command()
}

/// The commands of a server's clients.
pub(super) struct ClientCommands {
    pub held: Arc<Held>,
}

impl Commands for ClientCommands {
    fn admit(&self, request: &Request, own: &View) -> Result<(), String> {
        // The client's own program understood it; this one may be older.
        let cli = Cli::try_parse_from(&request.arguments).map_err(|e| e.to_string())?;
        match Need::of(&cli.command) {
            Need::Nothing => Err("a server does not run this for others".to_owned()),
            Need::Live | Need::Writing { files: false } => Ok(()),
            Need::Writing { files: true } => match own.refusal(&request.view) {
                Some(why) => Err(why),
                None => Ok(()),
            },
        }
    }

    fn run(&self, caller: Caller, request: Request) -> Exit {
        match Cli::try_parse_from(&request.arguments) {
            Ok(cli) => {
                let _asking = Asker::of(origin_of(&cli.command)).begin();
                run_for(
                    caller,
                    cli,
                    &request.arguments,
                    Some(Arc::clone(&self.held)),
                )
            }
            Err(_) => Exit::Failed,
        }
    }

    fn device(&self) -> &DeviceQueue {
        &self.held.device
    }
}

/// For whom a command uses the server's device: in the server, or beside it.
pub(super) fn origin_of(command: &Command) -> Origin {
    match command {
        Command::Backup(_) | Command::Import(_) => Origin::Backup,
        Command::Copy(_) => Origin::Replication,
        Command::Gc(_) => Origin::Collect,
        Command::Check(_) => Origin::Scrub,
        Command::Defrag(_) => Origin::Defragment,
        // Somebody waits for them; they are short, or read what is given back.
        _ => Origin::Restore,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_needs_the_server() {
        let need = |line: &str| {
            let words = std::iter::once("quintet").chain(line.split(' '));
            Need::of(&Cli::try_parse_from(words).unwrap().command)
        };
        let files = true;
        assert_eq!(need("backup /x"), Need::Writing { files });
        assert_eq!(need("backup /x -n"), Need::Nothing);
        assert_eq!(need("key passwd"), Need::Writing { files });
        assert_eq!(need("key list"), Need::Nothing);
        assert_eq!(need("mount /mnt"), Need::Writing { files });
        assert_eq!(need("mount --read-only /mnt"), Need::Nothing);
        assert_eq!(need("volume list"), Need::Live);
        assert_eq!(need("volume delete a"), Need::Writing { files: false });
        assert_eq!(need("forget latest"), Need::Writing { files: false });
        assert_eq!(need("gc"), Need::Writing { files: false });
        assert_eq!(need("gc --dry-run"), Need::Live);
        assert_eq!(need("copy --to /x latest"), Need::Writing { files });
        assert_eq!(need("copy --to /x latest -n"), Need::Nothing);
        assert_eq!(need("defrag a b"), Need::Writing { files: false });
        assert_eq!(need("defrag -n"), Need::Nothing);
        assert_eq!(need("defrag status"), Need::Live);
        assert_eq!(need("defrag start a"), Need::Writing { files: false });
        assert_eq!(need("defrag cancel"), Need::Writing { files: false });
        assert_eq!(need("copy --pause"), Need::Live);
        assert_eq!(need("undelete"), Need::Nothing);
        assert_eq!(need("undelete 3f2a"), Need::Writing { files: false });
        assert_eq!(need("scrub status"), Need::Live);
        assert_eq!(need("scrub --limit 5M"), Need::Writing { files: false });
        assert_eq!(need("scrub start --replica /x"), Need::Writing { files });
        assert_eq!(need("repair --replica /x"), Need::Writing { files });
        assert_eq!(need("qos show"), Need::Live);
        assert_eq!(need("qos set random=30"), Need::Writing { files: false });
        assert_eq!(need("restore latest -t /x"), Need::Nothing);
    }
}
