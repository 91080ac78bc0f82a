//! `host scrub`: compares what is on the disk with a snapshot. [`super::run`] calls this.
//!
//! Invariant: the pool is opened to read only, so a server or a backup beside this goes on.
//! Progress is recorded in the user's cache directory at least every [`RECORD_EVERY`], and at an
//! interrupt.

mod alone;
mod choice;
mod words;

use crate::arguments::HostScrubArgs;
use crate::background::{Background, idle_priority};
use crate::pools::Pools;
use alone::Alone;
use archive::backup::Pacer;
use choice::Choice;
use format::host_scrub::{HostScrubCounts, HostScrubRecord};
use host_tasks::{FileTree, HostScrubNews, HostScrubOptions, HostScrubber};
use maintenance::{RunEnd, StepSizes, run_task};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use terminal::exit::Exit;
use terminal::interrupt::Interrupted;
use terminal::progress::Progress;
use terminal::shell::Shell;
use terminal::sizes;

/// Step sizes. The user who interrupts waits for one step at most.
const SIZES: StepSizes = StepSizes::new(4 << 20);
/// Maximum time that a killed scrub repeats, besides the part in progress.
const RECORD_EVERY: Duration = Duration::from_secs(5);

pub(crate) fn run(shell: &Shell, pools: &dyn Pools, args: &HostScrubArgs) -> anyhow::Result<Exit> {
    let pool = Arc::new(pools.open_to_read()?);
    let choice = Choice::of(shell, pools, args, &pool)?;
    let tree = FileTree::read(pool.reader(), &choice.top, &choice.excludes)?;
    let background = args.background.then(|| Background::new(shell));
    let _priority = background
        .as_ref()
        .map(|_| idle_priority(shell, "the scrub"));
    let options = HostScrubOptions {
        bytes_per_s: args.limit_rate,
        pacer: background.as_ref().map(|pacer| pacer as &dyn Pacer),
        listens: true,
    };
    let mut scrubber = HostScrubber::new(Arc::clone(&pool), tree, choice.record(), options)?;
    begin(shell, &choice, &scrubber)?;
    let progress = shell.progress("scrubbing");
    let totals = scrubber.totals();
    progress.add_total(totals.files, totals.bytes);
    progress.totals_known();
    let mut failures = Failures::default();
    let passed = pass(shell, &choice, &mut scrubber, &progress, &mut failures);
    drop(progress);
    if let Some(background) = &background {
        let waited = background.waited().as_secs_f64();
        let waited = format_args!("waited {waited:.2} s for an idle disk");
        shell.console.detail(waited);
    }
    match passed {
        Ok(()) => choice.forget(),
        Err(e) => {
            save(shell, &choice, &scrubber.record());
            return Err(e);
        }
    }
    words::summary(shell, &choice, &scrubber)?;
    let counts = scrubber.counts();
    let exit = match (
        counts.files_rotten + counts.files_unreadable + failures.pool,
        counts.files_failed + failures.paths,
    ) {
        (0, 0) => Exit::Done,
        (0, _) => Exit::Partly,
        _ => Exit::Damaged,
    };
    Ok(choice.exit_of(exit))
}

/// Counts of files that could not be compared.
#[derive(Default)]
struct Failures {
    paths: u64,
    /// Files and directories whose stored form is damaged.
    pool: u64,
}

fn begin(shell: &Shell, choice: &Choice, scrubber: &HostScrubber<'_>) -> std::io::Result<()> {
    let console = &shell.console;
    console.message(words::begin(choice, scrubber))?;
    console.note(format_args!(
        "comparing {} with snapshot {}",
        choice.path.display(),
        choice.called(shell),
    ));
    if scrubber.is_continued() {
        console.note("continuing where the last scrub of it was stopped (--restart begins again from the start)");
    }
    if let Some(newer) = choice.newer.as_ref().filter(|_| scrubber.is_continued()) {
        console.note(format_args!(
            "snapshot {newer} is newer; --restart compares with it"
        ));
    }
    if let Some(why) = scrubber.silent_because() {
        console.note(format_args!(
            "everything is read from the disk, also what other programs read meanwhile: {why}"
        ));
    }
    for finding in scrubber.findings() {
        words::tell(console, &choice.top_path, finding)?;
    }
    Ok(())
}

/// Works until everything is compared or the user interrupts.
fn pass(
    shell: &Shell,
    choice: &Choice,
    scrubber: &mut HostScrubber<'_>,
    progress: &Progress,
    failures: &mut Failures,
) -> anyhow::Result<()> {
    let host = Alone::new(&shell.interrupt);
    let console = &shell.console;
    let mut before = (0, 0);
    let mut recorded = Instant::now();
    let ended = run_task(scrubber, &host, SIZES, |scrubber, news| {
        match news {
            None => {}
            Some(HostScrubNews::Found(finding)) => {
                words::tell(console, &choice.top_path, &finding)?;
            }
            Some(HostScrubNews::Failed(error)) => {
                failures.paths += 1;
                console.warn_path(&error);
            }
            Some(HostScrubNews::PoolDamaged { path, error }) => {
                failures.pool += 1;
                let path = choice.top_path.join(words::os(&path));
                console.warn(format_args!(
                    "cannot compare {}, because the pool is damaged (run quintet check): {error}",
                    path.display()
                ));
            }
            Some(HostScrubNews::EventsLost(why)) => console.note(format_args!(
                "from here on, everything is read from the disk: {why}"
            )),
        }
        let now = done(&scrubber.counts());
        progress.add_files(now.0 - before.0);
        progress.add_bytes(now.1 - before.1);
        before = now;
        if recorded.elapsed() >= RECORD_EVERY {
            save(shell, choice, &scrubber.record());
            recorded = Instant::now();
        }
        Ok::<_, anyhow::Error>(ControlFlow::Continue(()))
    })?;
    match ended {
        RunEnd::Stopped => Err(Interrupted.into()),
        RunEnd::Finished | RunEnd::Idle => Ok(()),
    }
}

/// Files that have a verdict, and bytes that were compared.
fn done(counts: &HostScrubCounts) -> (u64, u64) {
    let files = counts.files_same
        + counts.files_changed
        + counts.files_rotten
        + counts.files_unreadable
        + counts.files_deleted
        + counts.files_unwritten
        + counts.files_failed;
    let bytes = counts.bytes_read
        + counts.bytes_read_by_others
        + counts.bytes_unproven
        + counts.bytes_in_holes;
    (files, bytes)
}

fn save(shell: &Shell, choice: &Choice, record: &HostScrubRecord) {
    if let Err(why) = choice.save(record) {
        shell.console.note(format_args!(
            "the next scrub begins again from the start, because the progress cannot be recorded: {why}"
        ));
    }
}

/// Returns a size for people.
fn size(bytes: u64) -> String {
    sizes::display(bytes)
}
