//! The commands: from parsed arguments to an exit code. `main` calls [`run`]; a server calls it for
//! its clients through `for_clients`.
//!
//! Invariant: `failure` maps every error to one of the codes of [`terminal::exit`]. A command
//! writes results through the console only.
//!
//! ```text
//! run --> run_for --> start --+-- a server has the pool: control::ask, its exit code
//!                             +-- else: Invocation --> dispatch --> the command's `run`
//! ```

mod as_owner;
mod backup;
mod check;
mod completion;
mod config;
mod configuration_file;
mod confirm;
mod copy;
mod defrag;
mod diff;
mod dump;
mod failure;
mod fast_reader;
mod find;
mod for_clients;
mod forget;
mod full;
mod gc;
mod generate;
mod guard;
mod host;
mod image;
mod init;
mod invocation;
mod jobs;
mod keys;
mod known_snapshots;
mod ls;
mod mount;
mod mounting;
mod new_snapshot;
mod notify;
mod opened;
mod parity;
mod policy;
mod product;
mod program;
mod qos;
mod readers;
mod repair;
mod replica;
mod restore;
mod rewrite;
mod scrub;
mod selected;
mod serve;
mod setup;
mod snapshots;
mod source_paths;
mod stats;
mod status;
mod tag;
mod top;
mod undelete;
mod unfinished;
mod upgrade;
mod volume;
mod writer_wait;

use crate::settings::Settings;
use clap::error::ErrorKind;
use command_line::{Cli, Command, PATTERNS_HELP};
use for_clients::Need;
use invocation::Invocation;
use server::control;
use server::state::ServerState;
use std::ffi::OsString;
use std::io::Write;
use std::sync::Arc;
use terminal::command_context::CommandContext;
use terminal::console::{Console, Loudness};
use terminal::error::with_causes;
use terminal::exit::Exit;

/// Version and commit, as `--version` prints them. `build.rs` finds the commit.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("QUINTET_COMMIT"), ")");

/// Runs one command line. The process should end with the returned exit code.
pub fn run(arguments: impl Iterator<Item = OsString>) -> Exit {
    let arguments: Vec<OsString> = arguments.collect();
    if let Some(exit) = completion::answer(&arguments) {
        return exit;
    }
    let context = match CommandContext::of_process(Exit::Interrupted.code()) {
        Ok(context) => context,
        Err(e) => {
            let text = failure::with_remedy(with_causes(&e), machine::process::open_files());
            eprintln!("quintet: {text}");
            return Exit::Failed;
        }
    };
    match command_line::help::parse(&arguments, VERSION) {
        Ok(cli) => run_for(context, cli, &arguments, None),
        Err(e) => usage(&context, &e, &arguments),
    }
}

/// Runs one command for a command context. `server` is the server state if this process is the
/// pool's server.
fn run_for(
    mut context: CommandContext,
    cli: Cli,
    arguments: &[OsString],
    server: Option<Arc<ServerState>>,
) -> Exit {
    let loudness = Loudness {
        json: cli.global.json,
        quiet: cli.global.quiet,
        verbose: cli.global.verbose,
    };
    context.json = loudness.json;
    let console = match Console::new(loudness, &context) {
        Ok(console) => Arc::new(console),
        Err(e) => {
            // The error output may fail too: nothing else is left to report to.
            let _ = writeln!(&context.streams().error, "quintet: {}", with_causes(&e));
            return Exit::Failed;
        }
    };
    if loudness.quiet && !product::is_asked_for(&cli.command) {
        console.hold_lines();
    }
    let outcome = start(context, cli, arguments, server, &console);
    const WRITTEN: &str = "the command has finished, but its output cannot be written";
    let is_done = matches!(outcome, Ok(Exit::Done));
    let outcome = match console.settle(!is_done).and_then(|()| console.flush()) {
        Err(e) if outcome.is_ok() => Err(anyhow::Error::from(e).context(WRITTEN)),
        _ => outcome,
    };
    match outcome {
        Ok(exit) => exit,
        Err(error) => {
            let exit = failure::exit_of(&error);
            if exit != Exit::OutputClosed {
                console.fail(
                    exit.code(),
                    failure::text(&error),
                    failure::helper_output(&error),
                );
            }
            exit
        }
    }
}

/// Prints help to standard output, with exit code 0. Reports a command line that cannot be parsed,
/// with exit code 1.
fn usage(context: &CommandContext, error: &clap::Error, arguments: &[OsString]) -> Exit {
    let asked = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    let json = Loudness {
        json: true,
        ..Loudness::default()
    };
    if !asked
        && arguments.iter().any(|argument| argument == "--json")
        && let Ok(console) = Console::new(json, context)
    {
        console.fail(Exit::Failed.code(), error.to_string().trim_end(), None);
        return Exit::Failed;
    }
    match (error.print(), asked) {
        (Ok(()), true) => Exit::Done,
        (Err(_), true) => Exit::OutputClosed,
        (_, false) => Exit::Failed,
    }
}

fn start(
    context: CommandContext,
    cli: Cli,
    arguments: &[OsString],
    server: Option<Arc<ServerState>>,
    console: &Arc<Console>,
) -> anyhow::Result<Exit> {
    let settings = Settings::new(&cli.global, &context)?;
    if let Some(directory) = context.environment.text("QUINTET_CONTROL_DIRECTORY")? {
        control::sockets_are_in(directory.into());
    }
    if server.is_none() {
        as_owner::go_on(&context, &cli, &settings, arguments, console)?;
    }
    if server.is_none()
        && Need::of(&cli.command) != Need::Nothing
        && let Some(exit) = for_clients::ask(&cli.command, &settings, &context, arguments)?
    {
        return Ok(exit);
    }
    let origin = for_clients::origin_of(&cli.command);
    let console = Arc::clone(console);
    let invocation = Invocation::new(settings, context, console, server, (origin, arguments));
    let outcome = dispatch(&invocation, cli);
    invocation.leave_hints();
    invocation.tell_restored();
    invocation.remember_pools();
    outcome
}

fn dispatch(invocation: &Invocation, cli: Cli) -> anyhow::Result<Exit> {
    match cli.command {
        Command::Init(args) => init::run(invocation, &cli.global, &args),
        Command::Key(command) => keys::run(invocation, &command),
        Command::Parity(command) => parity::run(invocation, &command),
        Command::Upgrade(args) => upgrade::run(invocation, &args),
        Command::Backup(args) => backup::run(invocation, &args),
        Command::Restore(args) => restore::run(invocation, &args),
        Command::Snapshots(args) => snapshots::run(invocation, &args),
        Command::Ls(args) => ls::run(invocation, &args),
        Command::Find(args) => find::run(invocation, &args),
        Command::Diff(args) => diff::run(invocation, &args),
        Command::Dump(args) => dump::run(invocation, &args),
        Command::Tag(args) => tag::run(invocation, &args),
        Command::Rewrite(args) => rewrite::run(invocation, &args),
        Command::Forget(args) => forget::run(invocation, &args),
        Command::Undelete(args) => undelete::run(invocation, &args),
        Command::Gc(args) => gc::run(invocation, &args),
        Command::Import(args) => image::import(invocation, &args),
        Command::Export(args) => image::export(invocation, &args),
        Command::Copy(args) => copy::run(invocation, &args),
        Command::Check(args) => check::run(invocation, &args),
        Command::Repair(args) => repair::run(invocation, &args),
        Command::Scrub(args) => scrub::run(invocation, &args),
        Command::Qos(command) => qos::run(invocation, &command),
        Command::Defrag(args) => defrag::run(invocation, &args),
        Command::Stats(args) => stats::run(invocation, &args),
        Command::Status(args) => status::run(invocation, &args),
        Command::Config(command) => config::run(invocation, &command),
        Command::Setup(args) => setup::run(invocation, &args),
        Command::Run(args) => jobs::run(invocation, &cli.global, &args),
        Command::Notify(args) => notify::run(invocation, &args),
        Command::Mount(args) => mount::run(invocation, &args),
        Command::Top(args) => top::run(invocation, &args),
        Command::Volume(command) => volume::run(invocation, &command),
        Command::Host(command) => host::run(invocation, &command),
        Command::Policy(command) => policy::run(invocation, &command),
        Command::Serve(args) => serve::run(invocation, &args),
        Command::Generate(args) => generate::run(&args),
        Command::Patterns => {
            invocation.console.line(PATTERNS_HELP)?;
            Ok(Exit::Done)
        }
        Command::MountGuard(args) => guard::run(&args),
    }
}
