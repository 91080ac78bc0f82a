//! Power losses while hot chunks are copied into small regions. A run that resumes from a record
//! reaches the same result as a run without a loss. Every byte is unchanged.

use crate::fragmented::{KIB, damage};
use crate::hot_chunks::{Served, begin, open, resumed};
use crate::hot_chunks_by_server::find;
use format::phase::TaskPhase;
use maintenance::{Defragmenter, FetchCost, MaintenanceTask, RecordedDefrag, TaskStep};
use sim::{Expected, Explorer, History, Scenario, SimDisk};
use std::sync::Arc;
use volumes::Volumes;

/// An image of 25 regions. Four of its chunks are hot.
const CHUNKS: u64 = 200;
const STEP_BYTES: u64 = 64 * KIB;

/// Processes begin a run and die; the next one resumes it.
struct Runs {
    seed: u64,
    /// The server begins runs by itself.
    is_by_server: bool,
}

impl Runs {
    fn begin(&self, volumes: &Arc<Volumes>) -> Defragmenter {
        match self.is_by_server {
            true => find(volumes, 3).run,
            false => begin(volumes),
        }
    }
}

fn record(run: &mut Defragmenter, history: &History<u64>) -> Result<(), String> {
    let ticket = history.begin(run.report().counts.small.bytes);
    run.record().map_err(|e| e.to_string())?;
    history.ack(ticket);
    Ok(())
}

impl Scenario for Runs {
    type Op = u64;
    type Model = Vec<u64>;

    fn apply(&self, model: &mut Vec<u64>, op: &u64) {
        model.push(*op);
    }

    fn run(&self, disk: &Arc<SimDisk>, history: &History<u64>) -> Result<(), String> {
        let served = Served::on(disk, CHUNKS, store::IMAGE_REGION_BYTES);
        served.cloned();
        for seed in 4..7 {
            served.read_hot(seed);
        }
        history.explore_from_here();
        for life in 0.. {
            let volumes = open(disk, self.seed + life);
            let mut run = match RecordedDefrag::read(volumes.pool()) {
                None => self.begin(&volumes),
                Some(recorded) => resumed(&volumes, recorded),
            };
            record(&mut run, history)?;
            for _ in 0..4 + 3 * life {
                run.settle_soon();
                match run.step(0, STEP_BYTES).map_err(|e| e.to_string())? {
                    TaskStep::Worked { .. } => {}
                    TaskStep::Finished => return record(&mut run, history),
                    other => return Err(format!("{other:?}")),
                }
                record(&mut run, history)?;
            }
        }
        Ok(())
    }

    fn check(&self, disk: &Arc<SimDisk>, _: &Expected<Self>) -> Result<(), String> {
        let volumes = open(disk, 99);
        let unfinished = RecordedDefrag::read(volumes.pool())
            .filter(|recorded| recorded.report().phase != TaskPhase::AtRest);
        let mut run = match unfinished {
            Some(recorded) => resumed(&volumes, recorded),
            None => self.begin(&volumes),
        };
        for _ in 0..10_000 {
            match run.step(0, 1 << 20).map_err(|e| e.to_string())? {
                TaskStep::Worked { .. } => {}
                TaskStep::Finished => {
                    let counts = run.report().counts;
                    // Nothing is hot if the loss took the trace.
                    let is_small = counts.small.after.bytes_each() < (16 * KIB) as f64;
                    let is_all = is_small && counts.small.over == 0 && counts.failed == 0;
                    return match damage(&volumes) {
                        Some(damage) => Err(damage),
                        None if is_all => Ok(()),
                        None => Err(format!("{counts:?}")),
                    };
                }
                other => return Err(format!("{other:?}")),
            }
        }
        Err("the run does not end".to_owned())
    }
}

#[test]
fn a_power_loss_while_small_regions_are_written_costs_work_only() {
    explored(false);
}

#[test]
fn so_does_one_in_a_run_that_a_server_begins_by_itself() {
    explored(true);
}

fn explored(is_by_server: bool) {
    let states = Explorer::explore_seeds(&[500], |seed| Runs { seed, is_by_server });
    println!("{states} states");
    assert!(states > 100, "{states}");
}
