//! Power losses while damaged containers are restored from parity. Each container is the damaged
//! one or the restored one, and the next scrub restores all of them.

use crate::backed_up;

use backed_up::{back_up, open};
use maintenance::{MaintenanceTask, Scrubber, TaskStep};
use sim::pool_histories::{check_all, init_options, media};
use sim::{Expected, Explorer, History, Scenario, SimDisk};
use std::sync::Arc;
use store::{InitOptions, Pool};

struct PutsBack {
    seed: u64,
}

/// Scrubs to the end; returns the number of containers that were restored.
fn scrub(pool: &Arc<Pool>) -> Result<usize, String> {
    let mut scrubber = Scrubber::alone(Arc::clone(pool));
    scrubber.start(None).map_err(|e| e.to_string())?;
    let mut restored = 0;
    loop {
        match scrubber.step(0, 1 << 20).map_err(|e| e.to_string())? {
            TaskStep::Worked { .. } => {}
            TaskStep::News(news) if news.unread.is_none() => {
                for damaged in news.found.damaged {
                    if !damaged.is_restored() {
                        return Err(format!("{damaged:?}"));
                    }
                    restored += 1;
                }
            }
            TaskStep::Finished => return Ok(restored),
            other => return Err(format!("{other:?}")),
        }
    }
}

impl Scenario for PutsBack {
    type Op = ();
    type Model = ();

    fn apply(&self, _: &mut (), (): &()) {}

    fn run(&self, disk: &Arc<SimDisk>, history: &History<()>) -> Result<(), String> {
        let disk_media = media(Arc::clone(disk) as _, self.seed);
        let options = InitOptions {
            parity_percent: 2,
            ..init_options(&[])
        };
        Pool::init(&disk_media, &options).map_err(|e| e.to_string())?;
        let pool = open(disk, self.seed + 1)?;
        back_up(&pool, self.seed)?;
        back_up(&pool, self.seed + 1)?;
        drop(pool);
        let containers = disk.image().files_below("containers");
        for (number, (path, len)) in containers.iter().enumerate() {
            let at = (number as u64 * 5077 + 600) % len;
            let file = media::Disk::open(&**disk, path, false).map_err(|e| e.to_string())?;
            let mut byte = [0];
            file.read_at(at, &mut byte).map_err(|e| e.to_string())?;
            file.write_at(at, &[!byte[0]]).map_err(|e| e.to_string())?;
            let synced = file.sync(media::Barrier::BlobBeforeName);
            synced.map_err(|e| e.to_string())?;
        }
        history.explore_from_here();
        let pool = open(disk, self.seed + 2)?;
        match scrub(&pool)? {
            0 => Err("nothing was damaged".to_owned()),
            _ => Ok(()),
        }
    }

    fn check(&self, disk: &Arc<SimDisk>, _: &Expected<Self>) -> Result<(), String> {
        let pool = open(disk, 99)?;
        scrub(&pool)?;
        let report = check_all(&pool).map_err(|e| e.to_string())?;
        match report.is_sound() {
            true => Ok(()),
            false => Err(format!("{:?}", report.damage)),
        }
    }
}

#[test]
fn a_power_loss_while_containers_are_put_back_loses_nothing() {
    let states = Explorer::explore_seeds(&[1, 2], |seed| PutsBack { seed });
    assert!(states > 100, "{states}");
}
