//! Power losses around gc runs: the remembered run is one that was recorded, or none. The next
//! server neither runs gc at once because of it nor never.

use crate::backed_up;

use backed_up::{back_up, open};
use maintenance::{
    CollectDecision, CollectMemory, CollectNote, Collector, GcPolicy, PoolSpace, Urgency,
};
use media::Room;
use sim::pool_histories::{finish_gc, init_options, lane_options, media};
use sim::{Expected, Explorer, History, Scenario, SimDisk};
use std::sync::Arc;
use store::Pool;

const GIB: u64 = 1 << 30;
const DAY_S: u64 = 86_400;

/// Backups and gc runs alternate, over restarts; the process of the second run dies.
struct Collections {
    seed: u64,
}

/// Writes the record of a run.
fn write(
    pool: &Pool,
    memory: &mut CollectMemory,
    note: CollectNote,
    ends: bool,
    history: &History<CollectNote>,
) -> Result<(), String> {
    let ticket = history.begin(note);
    let record = match ends {
        true => memory.end(note),
        false => memory.begin(note),
    };
    CollectMemory::write(pool, record).map_err(|e| e.to_string())?;
    history.ack(ticket);
    Ok(())
}

impl Scenario for Collections {
    type Op = CollectNote;
    type Model = Vec<CollectNote>;

    fn apply(&self, model: &mut Vec<CollectNote>, op: &CollectNote) {
        model.push(*op);
    }

    fn run(&self, disk: &Arc<SimDisk>, history: &History<CollectNote>) -> Result<(), String> {
        let disk_media = media(Arc::clone(disk) as _, self.seed);
        Pool::init(&disk_media, &init_options(&[])).map_err(|e| e.to_string())?;
        back_up(&open(disk, self.seed + 1)?, self.seed)?;
        history.explore_from_here();
        for life in 0..4 {
            let pool = open(disk, self.seed + 2 + life)?;
            let mut memory = CollectMemory::of(&pool);
            let note = CollectMemory::note(&pool, Urgency::WhenIdle, life == 3);
            write(&pool, &mut memory, note, false, history)?;
            let policy = GcPolicy::with_trash_period(0);
            let mut collector =
                Collector::new(&pool, policy, lane_options()).map_err(|e| e.to_string())?;
            // One process dies here.
            let is_survived = life != 1;
            if is_survived {
                let counts = finish_gc(&pool, None, &mut collector, 1 << 20);
                let counts = counts.map_err(|e| e.to_string())?;
                let note = CollectNote {
                    is_complete: true,
                    deleted_bytes: counts.deleted_bytes,
                    ..CollectMemory::note(&pool, note.urgency, note.by_command)
                };
                write(&pool, &mut memory, note, true, history)?;
            }
            drop(collector);
            back_up(&pool, self.seed + 10 + life)?;
        }
        Ok(())
    }

    fn check(&self, disk: &Arc<SimDisk>, expected: &Expected<Self>) -> Result<(), String> {
        // Hours after the last run.
        let pool = open(disk, 9)?;
        let mut memory = CollectMemory::of(&pool);
        let found = memory.last();
        let mut written = expected.acked.iter().chain(&expected.in_flight);
        if found.is_some_and(|found| !written.any(|note| is_same(note, &found))) {
            return Err(format!("a run that nobody wrote: {found:?}"));
        }
        // Containers in the trash are overdue.
        let now_s = u64::try_from(pool.now().0 / 1_000_000_000).map_err(|e| e.to_string())?;
        let space = |now_s| PoolSpace {
            now_s,
            room: Some(Room {
                free_bytes: 500 * GIB,
                total_bytes: 1000 * GIB,
                ..Room::default()
            }),
            journal_bytes: GIB,
            stored_bytes: 1 << 20,
            trashed_s: Some(0),
            trash_over_bytes: 0,
            purge_s: None,
        };
        let schedule = memory.schedule();
        schedule.see(now_s);
        let begins = |now_s| matches!(schedule.decide(&space(now_s)), CollectDecision::Begin(_));
        match (begins(now_s), begins(now_s + DAY_S)) {
            (false, true) => Ok(()),
            other => Err(format!("{found:?}: begins now, a day later: {other:?}")),
        }
    }
}

fn is_same(written: &CollectNote, found: &CollectNote) -> bool {
    CollectNote {
        // Of the last run that was not interrupted.
        stored_bytes: found.stored_bytes,
        ..*written
    } == *found
}

#[test]
fn a_power_loss_around_a_collection_costs_a_look_only() {
    let states = Explorer::explore_seeds(&[1, 2], |seed| Collections { seed });
    assert!(states > 600, "{states}");
}
