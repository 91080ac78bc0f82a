//! `defrag`: copies chunks that are read together into one place, here or in the server that holds
//! the pool. [`super::run`] calls this.
//!
//! Invariant: it takes no writer lock: copies are made beside other writers. An interrupted run
//! loses nothing and can be resumed.

mod alone;
mod choice;
mod words;

pub(super) use words::{line, object};

use super::invocation::Invocation;
use super::opened::Opened;
use anyhow::bail;
pub(super) use choice::unfinished;
use command_line::{DefragArgs, DefragCommand, DefragRunArgs};
use format::phase::TaskPhase;
use maintenance::{ControlledTask, DefragReport, DefragSource, DefragStage, Defragmenter};
use server::state::{DefragStatus, RunOutcome, ServerState};
use std::sync::Arc;
use std::time::Duration;
use store::{OpenMode, Pool};
use terminal::exit::Exit;
use terminal::json::Object;
use units::UnixNanos;

/// Time between two checks of the server's run, while this command waits for it.
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub(super) fn run(invocation: &Invocation, args: &DefragArgs) -> anyhow::Result<Exit> {
    match (args.switch(), invocation.server_state()) {
        (Some(command), Some(server)) => in_server(invocation, server, &command),
        (Some(command), None) => without_server(invocation, &command),
        (None, Some(server)) if !args.dry_run => {
            let began = begin_in(invocation, server, &args.run)?;
            wait_for(invocation, server, began)
        }
        (None, _) => {
            let source = source(invocation, args.dry_run)?;
            let mut run = choice::begin(invocation, source.clone(), &args.run, args.dry_run)?;
            if !args.dry_run {
                run = choice::or_recorded(invocation, source, run, args.run.limit)?;
            }
            let report = alone::finish(invocation, run, args.dry_run)?;
            shown(invocation, args.dry_run, &report)
        }
    }
}

/// Opens the pool for a run in this process.
fn source(invocation: &Invocation, dry_run: bool) -> anyhow::Result<DefragSource> {
    if dry_run {
        let pool = invocation.open(OpenMode::Read)?;
        return Ok(DefragSource::Pool(Arc::clone(&*pool)));
    }
    Ok(match invocation.open_to_collect()? {
        Opened::Pool(pool) => DefragSource::Pool(Arc::from(pool)),
        Opened::Volumes(volumes) => DefragSource::Volumes(volumes.shared()),
    })
}

fn shown(invocation: &Invocation, dry_run: bool, report: &DefragReport) -> anyhow::Result<Exit> {
    words::show(invocation, dry_run, report)?;
    Ok(match report.counts.failed {
        0 => Exit::Done,
        _ => Exit::Damaged,
    })
}

fn in_server(
    invocation: &Invocation,
    server: &Arc<ServerState>,
    command: &DefragCommand,
) -> anyhow::Result<Exit> {
    let is_there = match command {
        DefragCommand::Start(args) => {
            begin_in(invocation, server, args)?;
            true
        }
        DefragCommand::Pause => server.tasks.defrag.stop(TaskPhase::Paused)?,
        DefragCommand::Cancel => server.tasks.defrag.stop(TaskPhase::AtRest)?,
        DefragCommand::Resume { limit } => {
            let source = DefragSource::Volumes(Arc::clone(&server.volumes));
            let lane = choice::lane(invocation)?;
            server
                .tasks
                .defrag
                .resume(*limit, || unfinished(&source, lane))?
        }
        DefragCommand::Status => true,
    };
    match is_there {
        true => show_status(invocation, server.tasks.defrag.status().as_ref()),
        false => bail!("no defragmentation is running, and none is unfinished"),
    }
}

fn without_server(invocation: &Invocation, command: &DefragCommand) -> anyhow::Result<Exit> {
    let phase = match command {
        DefragCommand::Start(_) => {
            invocation.server("run `quintet defrag` to defragment in the foreground")?;
            return Ok(Exit::Done);
        }
        DefragCommand::Status => {
            let pool = invocation.open(OpenMode::Read)?;
            return show_status(invocation, recorded_status(&pool).as_ref());
        }
        DefragCommand::Resume { limit } => {
            let source = source(invocation, false)?;
            let Some(mut run) = unfinished(&source, choice::lane(invocation)?)? else {
                bail!("there is no unfinished defragmentation")
            };
            if limit.is_some() {
                run.limit(*limit);
            }
            let report = alone::finish(invocation, run, false)?;
            return shown(invocation, false, &report);
        }
        DefragCommand::Pause => TaskPhase::Paused,
        DefragCommand::Cancel => TaskPhase::AtRest,
    };
    let pool = invocation.open(OpenMode::Write)?;
    if Defragmenter::stop_recorded(&pool, phase)?.is_none() {
        bail!("no defragmentation is running, and none is unfinished")
    }
    show_status(invocation, recorded_status(&pool).as_ref())
}

/// Returns the recorded state of the last run.
pub(super) fn recorded_status(pool: &Pool) -> Option<DefragStatus> {
    Defragmenter::last_recorded(pool).map(|run| DefragStatus {
        run,
        outcome: RunOutcome::Stopped,
    })
}

fn show_status(invocation: &Invocation, status: Option<&DefragStatus>) -> anyhow::Result<Exit> {
    let console = &invocation.console;
    let message = Object::message("defrag_status");
    console.message(match status {
        Some(status) => object(message, status),
        None => message.boolean("running", false).boolean("paused", false),
    })?;
    let text = status.map_or_else(|| "there was no run yet".to_owned(), line);
    console.line(format!("defrag: {text}"))?;
    Ok(Exit::Done)
}

/// Begins a run in the server, or resumes an unfinished run with the same arguments. Returns the
/// begin time of the run.
fn begin_in(
    invocation: &Invocation,
    server: &Arc<ServerState>,
    args: &DefragRunArgs,
) -> anyhow::Result<UnixNanos> {
    // Check first: the choice of objects takes reads. The server's own run makes room.
    server.tasks.end_own_defrag()?;
    server.tasks.defrag.is_free()?;
    let source = DefragSource::Volumes(Arc::clone(&server.volumes));
    let run = choice::begin(invocation, source.clone(), args, false)?;
    let run: Defragmenter = choice::or_recorded(invocation, source, run, args.limit)?;
    server.tasks.end_own_defrag()?;
    Ok(server.tasks.defrag.begin(run)?)
}

/// Waits until the run that began at `began` has ended. An interrupt pauses that run.
fn wait_for(
    invocation: &Invocation,
    server: &ServerState,
    began: UnixNanos,
) -> anyhow::Result<Exit> {
    let progress = invocation.progress("defragmenting").counting("range");
    let mut shown_before = alone::Shown::default();
    loop {
        let status = server.tasks.defrag.status();
        let Some(status) = status.filter(|status| status.run.report.began == began) else {
            bail!("another run has replaced this one")
        };
        shown_before.show(&progress, &status.run.report);
        match (&status.outcome, status.run.report.phase) {
            (RunOutcome::Failed(why), _) => bail!("{why}; continue with quintet defrag resume"),
            (RunOutcome::LeftBehind, _) => {
                bail!("the server is stopping; the next server continues the run")
            }
            (RunOutcome::Stopped, TaskPhase::AtRest) => {
                drop(progress);
                if status.run.report.stage != DefragStage::Done {
                    bail!("the run was cancelled; its copies stay")
                }
                return shown(invocation, false, &status.run.report);
            }
            (RunOutcome::Stopped, _) => {}
        }
        if invocation.interrupt.wait(LOOK_EVERY) {
            // If the server is ending, it has left the run to the next server, and the run stays in
            // progress.
            if server.tasks.defrag.stop_running(TaskPhase::Paused)? {
                invocation.console.note(alone::GO_ON);
            }
            if !server.tasks.defrag.is_left_under_way() {
                invocation.interrupt.check()?;
            }
        }
    }
}
