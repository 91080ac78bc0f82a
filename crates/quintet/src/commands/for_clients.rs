//! Runs commands for clients of a server (decision 18): which ones, and how. The start of every
//! command and `serve` call this.
//!
//! Invariant: commands that need the pool's lock run in the server that has it. Commands that only
//! read run in their own process, even beside a server, and ask it for I/O grants. The server
//! checks again which commands it runs.

use super::invocation::Invocation;
use super::run_for;
use crate::settings::{Settings, receiving_pool};
use clap::Parser;
use command_line::{
    Cli, Command, DefragCommand, KeyCommand, ParityCommand, PolicyCommand, QosCommand,
    ScrubCommand, VolumeCommand,
};
use device::DeviceQueue;
use media::IoOrigin;
use server::control::{self, Asked, CommandRequest, Commands, View};
use server::state::ServerState;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use terminal::command_context::CommandContext;
use terminal::environment::Environment;
use terminal::exit::Exit;
use units::Origin;

/// Need of a command for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Nothing: it only reads, or is itself a server.
    Nothing,
    /// The state of a running server, if there is one.
    Live,
    /// The pool, open for writing.
    Writing {
        /// The command opens files of the user.
        files: bool,
    },
}

impl Need {
    /// Returns the need of a parsed command.
    pub fn of(command: &Command) -> Self {
        let files = true;
        let unless = |only_looks: bool, need| if only_looks { Self::Nothing } else { need };
        match command {
            Command::Backup(args) => unless(args.dry_run, Self::Writing { files }),
            Command::Import(args) => unless(args.dry_run, Self::Writing { files }),
            Command::Copy(args) if args.pause || args.resume => Self::Live,
            // Reads the source in either case. A server of the receiving pool does the writing, and
            // a server of the source knows which chunks are in memory.
            Command::Copy(args) => unless(args.dry_run, Self::Writing { files }),
            Command::Rewrite(args) => {
                let lists = &args.excludes;
                let files = !(lists.exclude_file.is_empty() && lists.iexclude_file.is_empty());
                unless(args.dry_run, Self::Writing { files })
            }
            Command::Forget(args) => unless(args.dry_run, Self::Writing { files: false }),
            Command::Repair(args) => {
                let files = args.replica.replica.is_some();
                unless(args.dry_run, Self::Writing { files })
            }
            Command::Mount(args) => unless(args.read_only, Self::Writing { files }),
            Command::Gc(args) if args.set_trash_minimum.is_some() => Self::Writing { files },
            // Only a server knows which snapshots its clients have open.
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
            | Command::Volume(VolumeCommand::List | VolumeCommand::Info(_)) => Self::Live,
            Command::Policy(PolicyCommand::Status | PolicyCommand::Advise(_)) => Self::Live,
            Command::Policy(PolicyCommand::Set(_)) => Self::Writing { files },
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
            Command::Upgrade(args) => unless(args.dry_run, Self::Writing { files: false }),
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
            // A run asks the server for each of its commands.
            | Command::Config(_)
            | Command::Setup(_)
            | Command::Run(_)
            | Command::Notify(_)
            | Command::Generate(_)
            | Command::Host(_)
            | Command::Policy(_)
            | Command::Patterns
            | Command::MountGuard(_) => Self::Nothing,
        }
    }
}

/// Returns the directories of the pools whose servers may run a command, in the order in which they
/// are asked.
pub(super) fn pools_of(
    command: &Command,
    settings: &Settings,
    environment: &Environment,
) -> Vec<PathBuf> {
    let mut pools = Vec::new();
    // Settings that are missing here are reported by the command itself.
    if let Command::Copy(args) = command
        && !(args.pause || args.resume)
        && let Ok(to) = receiving_pool(&args.to, environment)
    {
        pools.push(to.path);
    }
    pools.extend(settings.pool().ok().map(Path::to_owned));
    pools
}

/// Returns true if the command would run the user's own programs in the server. They need all of
/// the user's variables.
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

/// Lets a server of one of its pools run the command. `None`: there is no server.
pub(super) fn ask(
    command: &Command,
    settings: &Settings,
    context: &CommandContext,
    arguments: &[OsString],
) -> anyhow::Result<Option<Exit>> {
    let environment = &context.environment;
    let variables = environment.for_server(runs_programs(command, arguments, environment));
    for pool in pools_of(command, settings, environment) {
        let passphrase = settings.password.descriptor();
        if let Asked::Ran(code) =
            control::ask(&pool, context, arguments, passphrase, variables.clone())?
        {
            return Ok(Some(Exit::of_code(code).unwrap_or(Exit::Failed)));
        }
    }
    Ok(None)
}

/// The same for a command that found out by reading that it needs the server. In a server: `None`.
pub(super) fn ask_after_all(invocation: &Invocation) -> anyhow::Result<Option<Exit>> {
    if invocation.server_state().is_some() {
        return Ok(None);
    }
    let arguments = &invocation.arguments;
    let command = Cli::try_parse_from(arguments)?.command;
    ask(
        &command,
        &invocation.settings,
        &invocation.context,
        arguments,
    )
}

/// Runs the commands of a server's clients.
pub(super) struct ClientCommands {
    pub server: Arc<ServerState>,
}

impl Commands for ClientCommands {
    fn admit(&self, request: &CommandRequest, own: &View) -> Result<(), String> {
        // The client's program has parsed the arguments, but this one may be older.
        let cli = Cli::try_parse_from(&request.arguments).map_err(|e| e.to_string())?;
        if matches!(cli.command, Command::Mount(_))
            && let Some(why) = own.mount_refusal(&request.view)
        {
            return Err(why);
        }
        let need = match &cli.command {
            // Of a volume, as the client has found out. See `ask_after_all`.
            Command::Export(args) => Need::Writing {
                files: args.out != Path::new("-"),
            },
            command => Need::of(command),
        };
        match need {
            Need::Nothing => {
                Err("the server of this pool does not run this command for clients".to_owned())
            }
            Need::Live | Need::Writing { files: false } => Ok(()),
            Need::Writing { files: true } => match own.refusal(&request.view) {
                Some(why) => Err(why),
                None => Ok(()),
            },
        }
    }

    fn run(&self, context: CommandContext, request: CommandRequest) -> u8 {
        let exit = match Cli::try_parse_from(&request.arguments) {
            Ok(cli) => {
                let _io_origin = IoOrigin::of(origin_of(&cli.command)).begin();
                run_for(
                    context,
                    cli,
                    &request.arguments,
                    Some(Arc::clone(&self.server)),
                )
            }
            Err(_) => Exit::Failed,
        };
        exit.code()
    }

    fn device(&self) -> &DeviceQueue {
        &self.server.device
    }
}

/// Returns the I/O origin of a command, in the server or beside it.
pub(super) fn origin_of(command: &Command) -> Origin {
    match command {
        Command::Backup(_) | Command::Import(_) => Origin::Backup,
        Command::Copy(_) => Origin::Replication,
        Command::Gc(_) => Origin::Collect,
        Command::Check(_) | Command::Host(_) => Origin::Scrub,
        Command::Defrag(_) => Origin::Defragment,
        // A user waits for these commands. They are short, or read data that is restored.
        _ => Origin::Restore,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_need_the_server() {
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
        assert_eq!(need("volume info a"), Need::Live);
        assert_eq!(need("volume rename a b"), Need::Writing { files: false });
        assert_eq!(need("volume delete a"), Need::Writing { files: false });
        assert_eq!(need("forget latest"), Need::Writing { files: false });
        assert_eq!(need("rewrite 12 -e a"), Need::Writing { files: false });
        let line = "rewrite 12 --iexclude-file a";
        assert_eq!(need(line), Need::Writing { files });
        assert_eq!(need("rewrite 12 -e a -n"), Need::Nothing);
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
        assert_eq!(need("export a b"), Need::Nothing);
        assert_eq!(need("import - a"), Need::Writing { files });
        assert_eq!(need("run"), Need::Nothing);
    }
}
