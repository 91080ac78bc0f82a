//! `defrag`: puts together what is read at once and lies in pieces, here or in the server that holds
//! the pool.
//!
//! Invariant: takes no turn: copies are made beside whoever writes. An interrupted run has lost nothing.
//! Called by `commands`.

mod words;

use super::backup::REGION_BYTES as STREAM_REGION_BYTES;
use super::gc::Opened;
use super::invocation::Invocation;
use crate::cli::DefragArgs;
use crate::exit::Exit;
use crate::held::{DefragStatus, REGION_BYTES, Running};
use crate::json::Object;
use crate::progress::Progress;
use anyhow::bail;
use format::recipe::Layout;
use maintenance::{
    DefragOptions, DefragReport, DefragSource, DefragStage, DefragStep, Defragmenter, Heat,
};
use qos::Flow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Fragmentable, OpenMode};

/// Bytes of work between two looks at the clock and at the wish to stop.
const STEP_BYTES: u64 = 1 << 20;
/// Waits while it is paused, between looks at the wish to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// For programs: what `status` says.
pub(super) fn object(status: &DefragStatus) -> Object {
    let message = Object::new()
        .boolean("running", status.is_running)
        .boolean("paused", status.is_paused);
    words::object(message, false, &status.report)
}

pub(super) fn run(invocation: &Invocation, args: &DefragArgs) -> anyhow::Result<Exit> {
    if args.pause || args.resume {
        let held = invocation.held();
        return match held.is_some_and(|held| held.defrag.pause(args.pause)) {
            true => Ok(Exit::Done),
            false => bail!("no server is defragmenting this pool"),
        };
    }
    // Before anything is read for it.
    let running = match invocation.held() {
        Some(held) if !args.dry_run => Some(held.defrag.begin()?),
        _ => None,
    };
    let source = match args.dry_run {
        true => DefragSource::Pool(Arc::clone(&*invocation.open(OpenMode::Read)?)),
        false => match invocation.open_to_collect()? {
            Opened::Pool(pool) => DefragSource::Pool(Arc::from(pool)),
            Opened::Volumes(volumes) => DefragSource::Volumes(volumes.shared()),
        },
    };
    let (objects, heat) = choose(invocation, &source, args)?;
    // What is read from begin to end is better off in regions that pack well.
    let is_stream = |one: &Fragmentable| one.root.layout == Layout::Variable;
    let region_bytes = match objects.iter().all(is_stream) {
        true => STREAM_REGION_BYTES,
        false => REGION_BYTES,
    };
    let options = DefragOptions {
        hot_percent: args.hot.0,
        moves_shared: args.move_shared,
        rewrites_all: args.whole,
        dry_run: args.dry_run,
        bytes_per_s: args.limit,
        lane: invocation.lane(None, region_bytes)?,
    };
    let keys: Vec<u64> = objects.iter().map(|one| one.key).collect();
    let run = Defragmenter::new(source, &keys, heat, options)?;
    let report = finish(invocation, run, running.as_ref())?;
    words::show(invocation, args.dry_run, &report)?;
    Ok(match report.failed {
        0 => Exit::Done,
        _ => Exit::Damaged,
    })
}

/// What was named, else of what was read, else of all volumes; and what was read.
fn choose(
    invocation: &Invocation,
    source: &DefragSource,
    args: &DefragArgs,
) -> anyhow::Result<(Vec<Fragmentable>, Option<Heat>)> {
    let all = source.fragmentables()?;
    let heat = (!args.bypass && !args.whole).then(|| source.heat());
    let is_read = |one: &&Fragmentable| {
        let ranges = heat.as_ref().and_then(|heat| heat.get(&one.key));
        ranges.is_some_and(|ranges| !ranges.is_empty())
    };
    let objects = match args.objects.is_empty() {
        false => named(&all, &args.objects)?,
        true if all.iter().any(|one| is_read(&one)) => all.iter().filter(is_read).collect(),
        true => all.iter().filter(|one| one.is_volume).collect(),
    };
    let is_any_read = objects.iter().any(is_read);
    let heat = heat.filter(|_| is_any_read);
    if heat.is_none() && !args.bypass && !args.whole {
        let why = "nobody has seen it read: everything is looked at, as with --bypass";
        invocation.console.note(why);
    }
    Ok((objects.into_iter().cloned().collect(), heat))
}

fn named<'a>(all: &'a [Fragmentable], names: &[String]) -> anyhow::Result<Vec<&'a Fragmentable>> {
    let mut found = Vec::new();
    for name in names {
        let mut matching = all.iter().filter(|one| one.name == *name);
        // Of several of one name, the newest.
        let by_name = matching.next_back();
        let by_id = || {
            let mut matching = all.iter().filter(|one| one.id.starts_with(name.as_str()));
            let first = matching.next().filter(|_| name.len() >= 4);
            first.filter(|_| matching.next().is_none())
        };
        match by_name.or_else(by_id) {
            Some(one) => found.push(one),
            None => bail!("there is no volume, image or stream {name:?}"),
        }
    }
    Ok(found)
}

/// To the end, or until the user says so.
fn finish(
    invocation: &Invocation,
    mut run: Defragmenter,
    running: Option<&Running<'_>>,
) -> anyhow::Result<DefragReport> {
    let progress = invocation.progress("defragmenting");
    let started = Instant::now();
    let (mut shown, mut ranges) = (None, 0);
    loop {
        if let Err(e) = invocation.interrupt.check() {
            run.settle()?;
            return Err(e.into());
        }
        if let Some(running) = running {
            running.tell(&run.report());
            if running.is_paused(Duration::ZERO) {
                run.settle()?;
                running.tell(&run.report());
                while running.is_paused(LOOK_EVERY) && !invocation.interrupt.requested() {}
                continue;
            }
        }
        // Who interrupts it is heard above.
        let Ok(turn) = invocation.turn(Flow::Defragment, STEP_BYTES) else {
            continue;
        };
        let now_ns = started.elapsed().as_nanos() as u64;
        let step = run.step(now_ns, STEP_BYTES)?;
        drop(turn);
        match step {
            DefragStep::Worked { bytes } => progress.add_bytes(bytes),
            DefragStep::Failed { error } => {
                let console = &invocation.console;
                console.warn(format_args!("left where it is: {error}"));
            }
            DefragStep::Waiting { until_ns } => {
                let wait = Duration::from_nanos(until_ns.saturating_sub(now_ns));
                invocation.interrupt.wait(wait.min(Duration::from_secs(1)));
            }
            DefragStep::Finished => {
                let report = run.report();
                if let Some(running) = running {
                    running.tell(&report);
                }
                return Ok(report);
            }
        }
        let report = run.report();
        if shown.replace(report.stage) != Some(report.stage) {
            tell(&progress, report.stage);
        }
        progress.add_files(report.ranges_done.saturating_sub(ranges));
        ranges = ranges.max(report.ranges_done);
    }
}

fn tell(progress: &Progress, stage: DefragStage) {
    let words: &[u8] = match stage {
        DefragStage::Sizing => b"looking what there is",
        DefragStage::Examining => b"looking for what lies in pieces",
        DefragStage::Judging => b"asking whom moving it would hurt",
        DefragStage::Moving => b"copying",
        DefragStage::Measuring => b"looking what it has brought",
        DefragStage::Done => b"",
    };
    progress.set_current(words);
}
