//! Power losses during defragmentation. Its record is one that was written, or none. A run that
//! resumes from it reaches the same result as a run without a loss, so every copy that the record
//! counts was made. Every byte is unchanged.

use crate::defrag_small::{self, Served};
use crate::fragmented;

use format::phase::TaskPhase;
use fragmented::*;
use maintenance::{
    ControlledTask, DefragReport, DefragSource, DefragStage, Defragmenter, FetchCost,
    MaintenanceTask, RecordedDefrag, TaskStep,
};
use sim::{Expected, Explorer, History, Scenario, SimDisk};
use std::sync::Arc;
use volumes::Volumes;

/// One of two windows of 128 KiB is fragmented.
const BLOCKS: u64 = 2;
const STEP_BYTES: u64 = 64 * KIB;

/// Contents of a record: phase, stage, and progress.
type Said = (TaskPhase, u8, u64);

/// An image of six regions; four of its chunks are hot.
const SMALL_CHUNKS: u64 = 200;

/// Work of the runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    /// The windows of a volume that lie in pieces.
    Pieces,
    /// The hot chunks of an image that lie in large regions.
    Small,
}

/// Processes begin a run and die; the next one resumes, pauses or ends it.
struct Runs {
    seed: u64,
    work: Work,
}

fn said(report: &DefragReport) -> Said {
    (report.phase, report.stage as u8, report.ranges_done())
}

impl Runs {
    fn make(&self, disk: &Arc<SimDisk>) {
        match self.work {
            Work::Pieces => drop(make(disk, BLOCKS)),
            Work::Small => {
                let served = Served::on(disk, SMALL_CHUNKS, store::IMAGE_REGION_BYTES);
                served.cloned();
                for seed in 4..7 {
                    served.read_hot(seed);
                }
            }
        }
    }

    fn begin(&self, volumes: &Arc<Volumes>) -> Result<Defragmenter, String> {
        if self.work == Work::Small {
            return Ok(defrag_small::begin(volumes));
        }
        let keys = [key(volumes, "disk")];
        let source = DefragSource::Volumes(Arc::clone(volumes));
        Defragmenter::new(source, &keys, None, options()).map_err(|e| e.to_string())
    }

    fn taken_up(
        &self,
        volumes: &Arc<Volumes>,
        recorded: RecordedDefrag,
    ) -> Result<Defragmenter, String> {
        if self.work == Work::Small {
            return Ok(defrag_small::resumed(volumes, recorded));
        }
        let source = DefragSource::Volumes(Arc::clone(volumes));
        Defragmenter::resume(source, recorded, lane()).map_err(|e| e.to_string())
    }

    /// Returns true if all that can be is moved. Without a trace, which a power loss may take,
    /// nothing is hot.
    fn is_all(&self, report: &DefragReport) -> bool {
        let small = &report.counts.small;
        let is_all = match self.work {
            Work::Pieces => report.after.runs == 2 * BLOCKS,
            Work::Small => small.over == 0 && small.after.bytes_each() < (16 * KIB) as f64,
        };
        is_all && report.counts.failed == 0
    }
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
        self.make(disk);
        history.explore_from_here();
        let mut is_over = false;
        for life in 0.. {
            let volumes = open(disk, self.seed + life);
            let mut run = match RecordedDefrag::read(volumes.pool()) {
                None => self.begin(&volumes)?,
                Some(recorded) => self.taken_up(&volumes, recorded)?,
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
            None => self.begin(&volumes)?,
            Some(recorded) => {
                let found = said(&recorded.report());
                let mut written = expected.acked.iter().chain(&expected.in_flight);
                if !written.any(|record| *record == found) {
                    return Err(format!("a record that nobody wrote: {found:?}"));
                }
                if recorded.report().phase == TaskPhase::AtRest {
                    // It was over: the next one has nothing to do.
                    self.begin(&volumes)?
                } else {
                    self.taken_up(&volumes, recorded)?
                }
            }
        };
        for _ in 0..10_000 {
            match run.step(0, 1 << 20).map_err(|e| e.to_string())? {
                TaskStep::Worked { .. } => {}
                TaskStep::Finished => {
                    let report = run.report();
                    return match damage(&volumes) {
                        Some(damage) => Err(damage),
                        None if self.is_all(&report) => Ok(()),
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
    let work = Work::Pieces;
    let states = Explorer::explore_seeds(&[200, 300], |seed| Runs { seed, work });
    println!("{states} states");
    assert!(states > 600, "{states}");
}

#[test]
fn a_power_loss_while_small_regions_are_written_costs_work_only() {
    let work = Work::Small;
    let states = Explorer::explore_seeds(&[500], |seed| Runs { seed, work });
    println!("{states} states");
    assert!(states > 100, "{states}");
}

/// Each sync that makes a commit durable before a record counts its copies.
#[test]
fn without_the_syncs_of_a_commit_a_record_says_too_much() {
    use media::Barrier::{BlobBeforeName, ContainersBeforeRoot, RootBeforeAck};
    for barrier in [BlobBeforeName, ContainersBeforeRoot, RootBeforeAck] {
        let mut explorer = Explorer::new(9, 400);
        explorer.without = Some(barrier);
        explorer.threads = 2;
        let report = explorer.explore(&Runs {
            seed: 400,
            work: Work::Pieces,
        });
        let failures = report.failures.len();
        assert!(
            failures > 0,
            "{barrier:?}: nothing is missed in {} states",
            report.states
        );
    }
}
