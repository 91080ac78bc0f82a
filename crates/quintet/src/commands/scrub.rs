//! `scrub`: verifies what is stored, here or in the server that holds the pool. The server's scrub
//! thread prints its findings through `findings` here. [`super::run`] calls this.
//!
//! Invariant: damage is recorded in the pool and reported with the files that it affects. An
//! interrupted scrub resumes at the same place.

mod findings;
mod words;

pub(super) use findings::tell;
pub(super) use words::{object, summary};

use super::backup::REGION_BYTES;
use super::check::show_affected;
use super::invocation::Invocation;
use super::replica::{repair_from, replica_of};
use crate::progress::ArchiveProgress;
use command_line::{ScrubArgs, ScrubCommand, ScrubPassArgs};
use format::scrub::Pass;
use maintenance::{RunEnd, ScrubStatus, Scrubber, StepSizes, run_task};
use server::scrub_notes::{ScrubNotes, unread_words};
use server::state::{OpenPool, TaskHost};
use std::ops::ControlFlow;
use std::sync::Arc;
use store::{CheckDepth, OpenMode};
use terminal::exit::Exit;
use terminal::interrupt::Interrupted;
use terminal::json::Object;

/// Step sizes. The user who interrupts waits for one step at most.
const SIZES: StepSizes = StepSizes::new(4 << 20);

pub(super) fn run(invocation: &Invocation, args: &ScrubArgs) -> anyhow::Result<Exit> {
    match (&args.command, invocation.server_state()) {
        (Some(ScrubCommand::Status), server) => {
            let status = match server {
                Some(server) => server.tasks.scrub.status(),
                None => Scrubber::recorded(&*invocation.open(OpenMode::Read)?),
            };
            show_status(invocation, &status)?;
            return Ok(Exit::Done);
        }
        (Some(ScrubCommand::Start(pass)), Some(server)) => {
            server
                .tasks
                .scrub
                .start_with(replica_of(invocation, &pass.replica)?, pass.limit)?;
        }
        (Some(ScrubCommand::Pause), Some(server)) => server.tasks.scrub.pause()?,
        (None, Some(server)) => {
            server
                .tasks
                .scrub
                .start_with(replica_of(invocation, &args.pass.replica)?, args.pass.limit)?;
            invocation
                .console
                .note("the server scrubs in the background (see quintet scrub status)");
        }
        (Some(_), None) => {
            invocation.server("run `quintet scrub` to scrub in the foreground")?;
        }
        (None, None) => return in_foreground(invocation, &args.pass),
    }
    if let Some(server) = invocation.server_state() {
        show_status(invocation, &server.tasks.scrub.status())?;
    }
    Ok(Exit::Done)
}

fn show_status(invocation: &Invocation, status: &ScrubStatus) -> std::io::Result<()> {
    let console = &invocation.console;
    console.message(object(Object::message("scrub_status"), status))?;
    for (name, value) in summary(status, &invocation.zone) {
        console.line(format!("{name}: {value}"))?;
    }
    Ok(())
}

fn in_foreground(invocation: &Invocation, args: &ScrubPassArgs) -> anyhow::Result<Exit> {
    let lane = invocation.lane(None, REGION_BYTES)?;
    let replica = replica_of(invocation, &args.replica)?;
    let pool = invocation.open(OpenMode::Write)?;
    let mut scrubber = Scrubber::alone(Arc::clone(&pool));
    let mut findings = ScrubNotes::default();
    scrubber.start(args.limit)?;
    let progress = invocation.progress("scrubbing").counting("container");
    let status = scrubber.status();
    progress.add_total(status.containers, status.stored_bytes);
    progress.totals_known();
    let passed = pass(invocation, &mut scrubber, &mut findings, &progress);
    drop(progress);
    findings.note(&pool, lane)?;
    // Record the progress even if the pass cannot go on.
    let recorded = match passed {
        Ok(()) => scrubber.record(),
        Err(_) => scrubber.pause(),
    };
    if let Err(e) = recorded {
        let console = &invocation.console;
        console.warn(format_args!("cannot record the progress: {e}"));
    }
    passed?;
    let mut came_back = 0;
    // Includes damage from before this pass.
    if let Some(replica) = replica.filter(|_| pool.reader().knows_damage()) {
        let (console, interrupt) = (&invocation.console, &invocation.interrupt);
        let counts = repair_from(&replica, &pool, lane, console, interrupt, &mut || ())?;
        came_back = counts.chunks;
    }
    conclude(
        invocation,
        &pool,
        &scrubber.status().last,
        &findings,
        came_back,
    )
}

/// Works until the pass has ended or the user interrupts.
fn pass(
    invocation: &Invocation,
    scrubber: &mut Scrubber,
    findings: &mut ScrubNotes,
    progress: &ArchiveProgress,
) -> anyhow::Result<()> {
    let host = TaskHost::new(None, &invocation.interrupt);
    let mut before = Pass::default();
    let ended = run_task(scrubber, &host, SIZES, |scrubber, news| {
        let news = news.unwrap_or_default();
        findings.add(&news.found);
        tell(&invocation.console, &news.found)?;
        if let Some(unread) = &news.unread {
            findings.failures += 1;
            invocation.console.warn(unread_words(unread));
        }
        let now = scrubber.status().pass;
        progress.add_files(now.containers.saturating_sub(before.containers));
        let bytes = |pass: &Pass| pass.read_bytes + pass.cached_bytes;
        progress.add_bytes(bytes(&now).saturating_sub(bytes(&before)));
        before = now;
        if scrubber.wants_record() {
            let _ = scrubber.record();
        }
        Ok::<_, anyhow::Error>(ControlFlow::Continue(()))
    })?;
    match ended {
        RunEnd::Stopped => Err(Interrupted.into()),
        RunEnd::Finished | RunEnd::Idle => Ok(()),
    }
}

/// Names the affected files. Reads only the structure, and only if there is damage.
fn conclude(
    invocation: &Invocation,
    pool: &OpenPool,
    pass: &Pass,
    findings: &ScrubNotes,
    came_back: u64,
) -> anyhow::Result<Exit> {
    let mut affected = 0;
    let mut exit = Exit::Done;
    // The scrub did not read what a damaged catalog hides.
    let is_hidden = pool.snapshots_readable()?.1.is_some();
    if findings.damaged + came_back > 0 || is_hidden {
        let go_on = &mut |_, _| ControlFlow::Continue(());
        let report = match came_back {
            0 => pool.check(CheckDepth::Structure, go_on)?,
            // Records that nothing is missing any more, for `status`.
            _ => pool.look_again()?,
        };
        let (snapshots, _) = pool.snapshots_readable()?;
        for name in &report.affected {
            show_affected(invocation, name, &snapshots)?;
        }
        affected = report.affected.len();
        exit = match (report.is_sound(), findings.news + came_back) {
            (true, 0) => Exit::Done,
            (true, _) => Exit::Repaired,
            (false, _) => Exit::Damaged,
        };
    }
    let is_all_read = findings.failures == 0;
    let exit = if is_all_read { exit } else { Exit::Damaged };
    let console = &invocation.console;
    console.message(
        words::numbers(Object::message("summary"), pass).integer("affected", affected as u64),
    )?;
    console.line(words::done(pass))?;
    console.line(match exit {
        Exit::Done => "no damage found",
        Exit::Repaired => "repaired: every snapshot is complete",
        _ => {
            "STILL DAMAGED: back up again the sources that still exist, or run quintet repair --replica POOL. \
             Both store the damaged data again and make the snapshots above complete"
        }
    })?;
    Ok(exit)
}
