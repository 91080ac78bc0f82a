//! Power losses during a scrub. Its record is one that was written, or none. The next scrub
//! continues there, verifies everything, and reports no false damage.

use crate::backed_up;

use backed_up::{back_up, open};
use duet::Duet;
use format::phase::TaskPhase;
use format::scrub::Pass;
use maintenance::{MaintenanceTask, Scrubber, TaskStep};
use sim::pool_histories::{init_options, media};
use sim::{Expected, Explorer, History, Scenario, SimDisk};
use std::sync::Arc;
use store::Pool;

const STEP_BYTES: u64 = 4096;

/// Contents of a record.
type Said = (TaskPhase, Pass, Pass);

/// Backups and scrubs alternate; passes are paused, interrupted by the death of the process, and
/// ended.
struct Scrubs {
    seed: u64,
}

fn said(scrubber: &Scrubber) -> Said {
    let status = scrubber.status();
    (status.phase, status.pass, status.last)
}

fn record(scrubber: &mut Scrubber, history: &History<Said>) -> Result<(), String> {
    let ticket = history.begin(said(scrubber));
    scrubber.record().map_err(|e| e.to_string())?;
    history.ack(ticket);
    Ok(())
}

/// Does steps, each followed by a record; returns true at the end of the pass.
fn steps(scrubber: &mut Scrubber, count: usize, history: &History<Said>) -> Result<bool, String> {
    for _ in 0..count {
        let step = scrubber.step(0, STEP_BYTES).map_err(|e| e.to_string())?;
        record(scrubber, history)?;
        match step {
            TaskStep::Worked { .. } => {}
            TaskStep::Finished => return Ok(true),
            other => return Err(format!("{other:?}")),
        }
    }
    Ok(false)
}

impl Scenario for Scrubs {
    type Op = Said;
    type Model = Vec<Said>;

    fn apply(&self, model: &mut Vec<Said>, op: &Said) {
        model.push(*op);
    }

    fn run(&self, disk: &Arc<SimDisk>, history: &History<Said>) -> Result<(), String> {
        let disk_media = media(Arc::clone(disk) as _, self.seed);
        Pool::init(&disk_media, &init_options(&[])).map_err(|e| e.to_string())?;
        let mut pool = open(disk, self.seed + 1)?;
        back_up(&pool, self.seed)?;
        history.explore_from_here();
        for life in 0..3 {
            let duet = Duet::new(duet::DuetOptions {
                items_max: 64,
                seed: life,
            });
            let mut scrubber = Scrubber::new(Arc::clone(&pool), duet);
            scrubber.start(None).map_err(|e| e.to_string())?;
            steps(&mut scrubber, 3, history)?;
            back_up(&pool, self.seed + 10 + life)?;
            if life == 1 {
                let ticket = history.begin((
                    TaskPhase::Paused,
                    scrubber.status().pass,
                    scrubber.status().last,
                ));
                scrubber.pause().map_err(|e| e.to_string())?;
                history.ack(ticket);
                scrubber.start(None).map_err(|e| e.to_string())?;
            }
            while life > 0 && !steps(&mut scrubber, 1, history)? {}
            drop(scrubber);
            drop(pool);
            pool = open(disk, self.seed + 2 + life)?;
        }
        Ok(())
    }

    fn check(&self, disk: &Arc<SimDisk>, expected: &Expected<Self>) -> Result<(), String> {
        let pool = open(disk, 99)?;
        let mut scrubber = Scrubber::alone(Arc::clone(&pool));
        let found = said(&scrubber);
        let written = expected.acked.iter().chain(&expected.in_flight);
        let none = (TaskPhase::default(), Pass::default(), Pass::default());
        if found != none && !written.clone().any(|record| *record == found) {
            return Err(format!("a record that nobody wrote: {found:?}"));
        }
        scrubber.start(None).map_err(|e| e.to_string())?;
        for _ in 0..10_000 {
            match scrubber.step(0, 1 << 20).map_err(|e| e.to_string())? {
                TaskStep::Worked { .. } => {}
                TaskStep::Finished => {
                    let status = scrubber.status();
                    let all = status.last.containers == status.containers;
                    return match all && status.verified().is_some() {
                        true => Ok(()),
                        false => Err(format!("{status:?}")),
                    };
                }
                other => return Err(format!("{other:?}")),
            }
        }
        Err("the scrub does not end".to_owned())
    }
}

#[test]
fn a_power_loss_under_a_scrub_costs_work_only() {
    let states = Explorer::explore_seeds(&[1, 2], |seed| Scrubs { seed });
    assert!(states > 600, "{states}");
}
