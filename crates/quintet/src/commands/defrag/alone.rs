//! A run in the process of its command, where no server holds the pool.
//!
//! Invariant: how far it is is written down now and then; interrupted, it is paused. Called by `defrag`.

use crate::commands::invocation::Invocation;
use crate::progress::Progress;
use maintenance::{Advance, DefragReport, DefragStage, Defragmenter, StepSizes, TaskStep, advance};
use server::held::TaskHost;
use std::time::{Duration, Instant};

/// The user who interrupts waits for so much.
const SIZES: StepSizes = StepSizes::new(1 << 20);
/// Time between two records, where less was done than asks for one.
const RECORD_EVERY: Duration = Duration::from_secs(60);
/// Said when it stops before its end.
pub const GO_ON: &str = "it is paused; go on: quintet defrag resume";

/// To the end, or until the user says so.
pub fn finish(
    invocation: &Invocation,
    mut run: Defragmenter,
    dry_run: bool,
) -> anyhow::Result<DefragReport> {
    let progress = invocation.progress("defragmenting");
    let host = TaskHost::new(None, &invocation.interrupt);
    let mut recorded = Instant::now();
    let mut shown = Shown::default();
    if !dry_run {
        run.record()?;
    }
    loop {
        if let Err(e) = invocation.interrupt.check() {
            if !dry_run {
                run.pause()?;
                invocation.console.note(GO_ON);
            }
            return Err(e.into());
        }
        let Advance::Step(step) = advance(&mut run, &host, SIZES)? else {
            continue;
        };
        let is_over = matches!(step, TaskStep::Finished);
        match step {
            TaskStep::News(error) => {
                let console = &invocation.console;
                console.warn(format_args!("left where it is: {error}"));
            }
            TaskStep::Waiting { until_ns } => host.wait_until(until_ns),
            TaskStep::Worked { .. }
            | TaskStep::NeedsDevice
            | TaskStep::Idle
            | TaskStep::Finished => {}
        }
        let is_time = recorded.elapsed() >= RECORD_EVERY;
        if is_time {
            run.settle_soon();
        }
        if !dry_run && (is_over || is_time || run.wants_record()) {
            recorded = Instant::now();
            run.record()?;
        }
        let report = run.report();
        shown.show(&progress, &report);
        if is_over {
            return Ok(report);
        }
    }
}

/// What the display of a run has shown.
#[derive(Default)]
pub struct Shown {
    last: Option<(DefragStage, u64, u64)>,
}

impl Shown {
    /// Shows what is new.
    pub fn show(&mut self, progress: &Progress, report: &DefragReport) {
        let now = (report.stage, report.ranges_done, report.moved.bytes);
        // What was done before is not of this command.
        let (stage, ranges, bytes) =
            self.last
                .replace(now)
                .unwrap_or((DefragStage::Done, now.1, now.2));
        if stage != report.stage {
            tell(progress, report.stage);
        }
        progress.add_files(report.ranges_done.saturating_sub(ranges));
        progress.add_bytes(report.moved.bytes.saturating_sub(bytes));
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
