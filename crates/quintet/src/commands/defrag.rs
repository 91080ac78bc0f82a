//! `defrag`: puts together what is read at once and lies in pieces, here or in the server that holds
//! the pool.
//!
//! Invariant: takes no turn: copies are made beside whoever writes. An interrupted run has lost nothing.
//! Called by `commands`.

mod words;

use super::gc::Opened;
use super::invocation::Invocation;
use crate::cli::DefragArgs;
use crate::exit::Exit;
use crate::held::REGION_BYTES;
use crate::progress::Progress;
use anyhow::bail;
use maintenance::{
    DefragOptions, DefragReport, DefragSource, DefragStage, DefragStep, Defragmenter,
};
use qos::Flow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{MaintenanceTurn, OpenMode};

/// Bytes of work between two looks at the clock and at the wish to stop.
const STEP_BYTES: u64 = 1 << 20;
/// Waits for a turn at the device, between looks at the wish to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub(super) fn run(invocation: &Invocation, args: &DefragArgs) -> anyhow::Result<Exit> {
    let source = match args.dry_run {
        true => DefragSource::Pool(Arc::clone(&*invocation.open(OpenMode::Read)?)),
        false => match invocation.open_to_collect()? {
            Opened::Pool(pool) => DefragSource::Pool(Arc::from(pool)),
            Opened::Volumes(volumes) => DefragSource::Volumes(volumes.shared()),
        },
    };
    let options = DefragOptions {
        hot_percent: args.hot.0,
        moves_shared: args.move_shared,
        rewrites_all: args.whole,
        dry_run: args.dry_run,
        bytes_per_s: args.limit,
        lane: invocation.lane(None, REGION_BYTES)?,
    };
    let objects = chosen(&source, &args.objects)?;
    let run = Defragmenter::new(source, &objects, None, options)?;
    let report = finish(invocation, run)?;
    words::show(invocation, args.dry_run, &report)?;
    Ok(match report.failed {
        0 => Exit::Done,
        _ => Exit::Damaged,
    })
}

/// The keys of what was named; of all volumes if nothing was.
fn chosen(source: &DefragSource, names: &[String]) -> anyhow::Result<Vec<u64>> {
    let all = source.fragmentables()?;
    if names.is_empty() {
        let volumes = all.iter().filter(|one| one.is_volume);
        return Ok(volumes.map(|one| one.key).collect());
    }
    let mut keys = Vec::new();
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
            Some(one) => keys.push(one.key),
            None => bail!("there is no volume, image or stream {name:?}"),
        }
    }
    Ok(keys)
}

/// To the end, or until the user says so.
fn finish(invocation: &Invocation, mut run: Defragmenter) -> anyhow::Result<DefragReport> {
    let progress = invocation.progress("defragmenting");
    let started = Instant::now();
    let (mut shown, mut ranges) = (None, 0);
    loop {
        if let Err(e) = invocation.interrupt.check() {
            run.settle()?;
            return Err(e.into());
        }
        let turn = turn(invocation);
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
            DefragStep::Finished => return Ok(run.report()),
        }
        let report = run.report();
        if shown.replace(report.stage) != Some(report.stage) {
            tell(&progress, report.stage);
        }
        progress.add_files(report.ranges_done.saturating_sub(ranges));
        ranges = ranges.max(report.ranges_done);
    }
}

/// A turn at a server's device, for one step.
fn turn(invocation: &Invocation) -> Option<MaintenanceTurn<'_>> {
    let held = invocation.held()?;
    let mut turn = held.device.ask(Flow::Defragment, STEP_BYTES);
    while !turn.wait(LOOK_EVERY) {
        if invocation.interrupt.requested() {
            break;
        }
    }
    Some(turn)
}

fn tell(progress: &Progress, stage: DefragStage) {
    let words: &[u8] = match stage {
        DefragStage::Examining => b"looking for what lies in pieces",
        DefragStage::Judging => b"asking whom moving it would hurt",
        DefragStage::Moving => b"copying",
        DefragStage::Measuring => b"looking what it has brought",
        DefragStage::Done => b"",
    };
    progress.set_current(words);
}
