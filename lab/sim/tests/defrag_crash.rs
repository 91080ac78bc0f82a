//! Power losses during defragmentation. Its record is one that was written, or none. A run that
//! resumes from it reaches the same result as a run without a loss, so every copy that the record
//! counts was made. Every byte is unchanged.

use crate::fragmented;

use format::phase::TaskPhase;
use fragmented::*;
use maintenance::{
    ControlledTask, DefragReport, DefragSource, DefragStage, Defragmenter, MaintenanceTask,
    RecordedDefrag, TaskStep,
};
use sim::{Expected, Explorer, History, Scenario, SimDisk};
use std::sync::Arc;
use volumes::Volumes;

/// One of two windows of 128 KiB is fragmented.
const BLOCKS: u64 = 2;
const STEP_BYTES: u64 = 64 * KIB;

/// Contents of a record: phase, stage, and progress.
type Said = (TaskPhase, u8, u64);

/// Processes begin a run and die; the next one resumes, pauses or ends it.
struct Runs {
    seed: u64,
}

fn said(report: &DefragReport) -> Said {
    (report.phase, report.stage as u8, report.ranges_done())
}

fn begin(volumes: &Arc<Volumes>) -> Result<Defragmenter, String> {
    let keys = [key(volumes, "disk")];
    let source = DefragSource::Volumes(Arc::clone(volumes));
    Defragmenter::new(source, &keys, None, options()).map_err(|e| e.to_string())
}

fn taken_up(volumes: &Arc<Volumes>, recorded: RecordedDefrag) -> Result<Defragmenter, String> {
    let source = DefragSource::Volumes(Arc::clone(volumes));
    Defragmenter::resume(source, recorded, lane()).map_err(|e| e.to_string())
}

fn record(run: &mut Defragmenter, history: &History<Said>) -> Result<(), String> {
    let phase = match run.report().stage {
        DefragStage::Done => TaskPhase::AtRest,
        _ => TaskPhase::UnderWay,
    };
    let ticket = history.begin(said(&ControlledTask::report(run, phase).report));
    run.record().map_err(|e| e.to_string())?;
    history.ack(ticket);
    Ok(())
}

impl Scenario for Runs {
    type Op = Said;
    type Model = Vec<Said>;

    fn apply(&self, model: &mut Vec<Said>, op: &Said) {
        model.push(*op);
    }

    fn run(&self, disk: &Arc<SimDisk>, history: &History<Said>) -> Result<(), String> {
        make(disk, BLOCKS);
        history.explore_from_here();
        let mut is_over = false;
        for life in 0.. {
            let volumes = open(disk, self.seed + life);
            let mut run = match RecordedDefrag::read(volumes.pool()) {
                None => begin(&volumes)?,
                Some(recorded) => taken_up(&volumes, recorded)?,
            };
            record(&mut run, history)?;
            for _ in 0..4 + 3 * life {
                run.settle_soon();
                match run.step(0, STEP_BYTES).map_err(|e| e.to_string())? {
                    TaskStep::Worked { .. } => {}
                    TaskStep::Finished => is_over = true,
                    other => return Err(format!("{other:?}")),
                }
                record(&mut run, history)?;
            }
            if is_over {
                return Ok(());
            }
            if life % 2 == 1 {
                let ticket = history.begin(said(
                    &ControlledTask::report(&run, TaskPhase::Paused).report,
                ));
                run.pause().map_err(|e| e.to_string())?;
                history.ack(ticket);
            }
        }
        Ok(())
    }

    fn check(&self, disk: &Arc<SimDisk>, expected: &Expected<Self>) -> Result<(), String> {
        let volumes = open(disk, 99);
        let mut run = match RecordedDefrag::read(volumes.pool()) {
            None => begin(&volumes)?,
            Some(recorded) => {
                let found = said(&recorded.report());
                let mut written = expected.acked.iter().chain(&expected.in_flight);
                if !written.any(|record| *record == found) {
                    return Err(format!("a record that nobody wrote: {found:?}"));
                }
                if recorded.report().phase == TaskPhase::AtRest {
                    // It was over: the next one has nothing to do.
                    begin(&volumes)?
                } else {
                    taken_up(&volumes, recorded)?
                }
            }
        };
        for _ in 0..10_000 {
            match run.step(0, 1 << 20).map_err(|e| e.to_string())? {
                TaskStep::Worked { .. } => {}
                TaskStep::Finished => {
                    let report = run.report();
                    let is_all = report.after.runs == 2 * BLOCKS && report.counts.failed == 0;
                    return match damage(&volumes) {
                        Some(damage) => Err(damage),
                        None if is_all => Ok(()),
                        None => Err(format!("{report:?}")),
                    };
                }
                other => return Err(format!("{other:?}")),
            }
        }
        Err("the run does not end".to_owned())
    }
}

#[test]
fn a_power_loss_under_a_run_costs_work_only() {
    let states = Explorer::explore_seeds(&[200, 300], |seed| Runs { seed });
    println!("{states} states");
    assert!(states > 600, "{states}");
}

/// Each sync that makes a commit durable before a record counts its copies.
#[test]
fn without_the_syncs_of_a_commit_a_record_says_too_much() {
    use media::Barrier::{BlobBeforeName, ContainersBeforeRoot, RootBeforeAck};
    for barrier in [BlobBeforeName, ContainersBeforeRoot, RootBeforeAck] {
        let mut explorer = Explorer::new(9, 400);
        explorer.without = Some(barrier);
        explorer.threads = 2;
        let report = explorer.explore(&Runs { seed: 400 });
        let failures = report.failures.len();
        assert!(
            failures > 0,
            "{barrier:?}: nothing is missed in {} states",
            report.states
        );
    }
}
