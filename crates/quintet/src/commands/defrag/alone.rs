//! Runs a defragmentation in the process of its command, if no server holds the pool. `defrag`
//! calls this.
//!
//! Invariant: the progress is recorded regularly. An interrupt pauses the run.

use crate::commands::invocation::Invocation;
use crate::progress::ArchiveProgress;
use maintenance::{DefragReport, DefragStage, Defragmenter, RunEnd, StepSizes, run_task};
use server::state::TaskHost;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use terminal::interrupt::Interrupted;

/// Step sizes. The user who interrupts waits for one step at most.
const SIZES: StepSizes = StepSizes::new(1 << 20);
/// Time between two records of the progress, if the work itself asks for none.
const RECORD_EVERY: Duration = Duration::from_secs(60);
/// Message after an interrupt.
pub const GO_ON: &str = "the run is paused; continue with quintet defrag resume";

/// Works until the run has ended or the user interrupts.
pub fn finish(
    invocation: &Invocation,
    mut run: Defragmenter,
    dry_run: bool,
) -> anyhow::Result<DefragReport> {
    let progress = invocation.progress("defragmenting").counting("range");
    let host = TaskHost::new(None, &invocation.interrupt);
    let mut recorded = Instant::now();
    let mut shown = Shown::default();
    if !dry_run {
        run.record()?;
    }
    let ended = run_task(&mut run, &host, SIZES, |run, news| {
        if let Some(error) = news {
            let console = &invocation.console;
            console.warn(format_args!("a range was not moved: {error}"));
        }
        let is_time = recorded.elapsed() >= RECORD_EVERY;
        if is_time {
            run.settle_soon();
        }
        if !dry_run && (is_time || run.wants_record()) {
            recorded = Instant::now();
            run.record()?;
        }
        shown.show(&progress, &run.report());
        Ok::<_, anyhow::Error>(ControlFlow::Continue(()))
    })?;
    if ended != RunEnd::Finished {
        if !dry_run {
            run.pause()?;
            invocation.console.note(GO_ON);
        }
        return Err(Interrupted.into());
    }
    if !dry_run {
        run.record()?;
    }
    Ok(run.report())
}

/// Progress that was shown last.
#[derive(Default)]
pub struct Shown {
    last: Option<(DefragStage, u64, u64)>,
}

impl Shown {
    /// Shows the difference to the last report.
    pub fn show(&mut self, progress: &ArchiveProgress, report: &DefragReport) {
        let now = (
            report.stage,
            report.ranges_done(),
            report.counts.moved.bytes,
        );
        // A resumed run begins with the counts of an earlier command: do not show them.
        let (stage, ranges, bytes) =
            self.last
                .replace(now)
                .unwrap_or((DefragStage::Done, now.1, now.2));
        if stage != report.stage {
            tell(progress, report.stage);
        }
        progress.add_files(report.ranges_done().saturating_sub(ranges));
        progress.add_bytes(report.counts.moved.bytes.saturating_sub(bytes));
    }
}

fn tell(progress: &ArchiveProgress, stage: DefragStage) {
    let words: &[u8] = match stage {
        DefragStage::Sizing => b"looking what there is",
        DefragStage::Examining => b"looking for what lies in pieces",
        DefragStage::Estimating => b"asking whom moving it would hurt",
        DefragStage::Moving => b"copying",
        DefragStage::Measuring => b"looking what it has brought",
        DefragStage::Done => b"",
    };
    progress.set_current(words);
}
