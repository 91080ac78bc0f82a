//! Remembers gc runs over restarts: the last run, its gain, and how many had no effect. The
//! server's gc thread and the command `gc` use it.
//!
//! Invariant: a run is recorded when it begins, as interrupted, so that a process that dies in each
//! run does not begin one after another. A lost record costs one extra run.

use super::growth;
use super::{CollectLimits, CollectNote, CollectRun, CollectSchedule, Urgency};
use crate::slots;
use format::collect::CollectRecord;
use media::MediaError;
use store::{Discarded, Pool};
use units::{Generation, UnixNanos};

/// See the module's head.
#[derive(Clone, Debug)]
pub struct CollectMemory {
    schedule: CollectSchedule,
    record: CollectRecord,
}

impl CollectMemory {
    /// Creates the note of a run that begins now.
    pub fn note(pool: &Pool, urgency: Urgency, by_command: bool) -> CollectNote {
        CollectNote {
            at: pool.now(),
            urgency,
            by_command,
            stored_bytes: pool.record().stored_bytes,
            ..CollectNote::default()
        }
    }

    /// Reads the pool's memory. For a new pool, management begins now.
    pub fn of(pool: &Pool) -> Self {
        let mut record: CollectRecord = slots::read(pool);
        if record.since == UnixNanos(0) {
            record.since = pool.now();
        }
        Self::from(record)
    }

    /// The schedule of runs.
    pub fn schedule(&mut self) -> &mut CollectSchedule {
        &mut self.schedule
    }

    /// Returns the last run, if any.
    pub fn last(&self) -> Option<CollectNote> {
        Some(self.record.last).filter(|last| last.at != UnixNanos(0))
    }

    /// Returns the trash entries with future times that a run has seen: for the policy of the next
    /// run.
    pub fn ahead(&self) -> Option<Discarded> {
        let at = self.record.ahead_seen;
        self.record.last.ahead_by.map(|by| Discarded { by, at })
    }

    /// Updates that after a run that saw all of the trash.
    fn see_ahead(&mut self, note: &CollectNote) -> (Option<Generation>, UnixNanos) {
        match (note.ahead_by, self.ahead()) {
            _ if !note.is_complete => (self.record.last.ahead_by, self.record.ahead_seen),
            (None, _) => (None, UnixNanos(0)),
            // Nothing newer, and the clock has advanced since.
            (Some(by), Some(seen)) if by <= seen.by && seen.at <= note.at => {
                (Some(seen.by), seen.at)
            }
            // Everything waits anew, so that nothing is deleted too early.
            (by, _) => (by, note.at),
        }
    }

    /// A run begins. Returns the record to write: an interrupted run.
    pub fn begin(&mut self, note: CollectNote) -> CollectRecord {
        let mut as_dead = self.clone();
        let record = as_dead.end(note);
        self.record.sequence = as_dead.record.sequence;
        record
    }

    /// A run has ended. Returns the record to write.
    pub fn end(&mut self, note: CollectNote) -> CollectRecord {
        let (ahead_by, ahead_seen) = self.see_ahead(&note);
        self.schedule.ended(CollectRun::from(&note));
        self.record = CollectRecord {
            sequence: self.record.sequence.saturating_add(1),
            last: CollectNote {
                stored_bytes: self.schedule.last.map_or(0, |last| last.stored_bytes),
                ahead_by,
                ..note
            },
            without_effect: self.schedule.without_effect,
            ahead_seen,
            ..self.record
        };
        growth::sample(&mut self.record.samples, note.at, note.stored_bytes);
        self.record
    }

    /// Returns the record to write before the first run: since when the pool is managed.
    pub fn record(&mut self) -> CollectRecord {
        self.record.sequence = self.record.sequence.saturating_add(1);
        self.record
    }

    /// Notes the pool's size. Returns a record to write about once a day.
    pub fn see_size(&mut self, now: UnixNanos, stored_bytes: u64) -> Option<CollectRecord> {
        let is_due = growth::sample(&mut self.record.samples, now, stored_bytes);
        is_due.then(|| self.record())
    }

    /// The same for processes that write to the pool without running gc. It does not count as
    /// managing the pool.
    pub fn note_size(pool: &Pool) -> Result<(), MediaError> {
        let mut memory = Self::from(slots::read::<CollectRecord>(pool));
        match memory.see_size(pool.now(), pool.record().stored_bytes) {
            Some(record) => Self::write(pool, record),
            None => Ok(()),
        }
    }

    /// Returns the pool's growth, bytes a day, if known.
    pub fn growth_per_day(&self, now: UnixNanos, stored_bytes: u64) -> Option<u64> {
        growth::per_day(&self.record.samples, now, stored_bytes)
    }

    /// Writes the record.
    pub fn write(pool: &Pool, mut record: CollectRecord) -> Result<(), MediaError> {
        slots::write_numbered(pool, &mut record)
    }
}

impl From<CollectRecord> for CollectMemory {
    fn from(record: CollectRecord) -> Self {
        let mut schedule =
            CollectSchedule::new(CollectLimits::default(), seconds(record.since), None);
        if record.last.at != UnixNanos(0) {
            schedule.last = Some(CollectRun::from(&record.last));
            schedule.without_effect = record.without_effect;
        }
        Self { schedule, record }
    }
}

impl From<&CollectNote> for CollectRun {
    fn from(note: &CollectNote) -> Self {
        Self {
            ended_s: seconds(note.at),
            urgency: note.urgency,
            is_complete: note.is_complete,
            gained_bytes: note.deleted_bytes.saturating_add(note.discarded_bytes),
            stored_bytes: note.stored_bytes,
        }
    }
}

fn seconds(time: UnixNanos) -> u64 {
    u64::try_from(time.0 / 1_000_000_000).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{CollectDecision, PoolSpace};
    use media::Room;

    const GIB: u64 = 1 << 30;
    const HOUR_S: u64 = 3600;

    fn at(now_s: u64, stored_bytes: u64) -> PoolSpace {
        PoolSpace {
            now_s,
            room: Some(Room {
                free_bytes: 500 * GIB,
                total_bytes: 1000 * GIB,
                ..Room::default()
            }),
            journal_bytes: GIB,
            stored_bytes,
            trashed_s: None,
            trash_over_bytes: 0,
            purge_s: None,
        }
    }

    fn note(now_s: u64, is_complete: bool, deleted_bytes: u64) -> CollectNote {
        CollectNote {
            at: UnixNanos(now_s as i64 * 1_000_000_000),
            is_complete,
            deleted_bytes,
            stored_bytes: 100 * GIB,
            ..CollectNote::default()
        }
    }

    /// Counts the runs of servers that are restarted every `alive_s` and check every second.
    fn runs_of_restarted_servers(alive_s: u64, days: u64, gives: u64, dies_in_runs: bool) -> usize {
        let began_s = 1_000_000;
        let mut stored = CollectRecord {
            since: note(began_s, true, 0).at,
            ..CollectRecord::default()
        };
        let (mut runs, mut now_s) = (0, began_s);
        let end_s = began_s + days * 24 * HOUR_S;
        while now_s < end_s {
            let mut memory = CollectMemory::from(stored);
            let until = (now_s + alive_s).min(end_s);
            while now_s < until {
                // A GiB an hour is written, and as much overwritten.
                let since_run = memory.last().map_or(began_s, |last| seconds(last.at));
                let written = (now_s - since_run) * GIB / HOUR_S;
                let space = at(now_s, 100 * GIB + written);
                memory.schedule().see(now_s);
                if let CollectDecision::Begin(_) = memory.schedule().decide(&space) {
                    runs += 1;
                    stored = memory.begin(note(now_s, false, 0));
                    if dies_in_runs {
                        now_s += 1;
                        break;
                    }
                    stored = memory.end(note(now_s, true, gives));
                }
                now_s += 1;
            }
        }
        runs
    }

    /// 21 GiB come in 21 hours, a fifth of the pool: one run in that time, however long a server
    /// lives.
    #[test]
    fn restarts_neither_multiply_runs_nor_prevent_them() {
        for alive_s in [300, HOUR_S, 20 * HOUR_S, 1000 * HOUR_S] {
            let runs = runs_of_restarted_servers(alive_s, 10, 20 * GIB, false);
            assert!((10..=13).contains(&runs), "{runs} runs of {alive_s} s");
        }
        // A process that dies in each run tries less and less often.
        let runs = runs_of_restarted_servers(60, 10, 0, true);
        assert!((2..=40).contains(&runs), "{runs} deaths");
    }

    /// Entries newer than those seen wait from now on, together with those: never less.
    #[test]
    fn what_is_ahead_of_the_clock_is_remembered_from_when_it_was_seen() {
        let mut memory = CollectMemory::from(CollectRecord::default());
        let mut run = |now_s, is_complete, by| {
            let stored = memory.end(CollectNote {
                ahead_by: by,
                ..note(now_s, is_complete, 0)
            });
            memory = CollectMemory::from(stored);
            memory.ahead().map(|seen| (seen.by.0, seconds(seen.at)))
        };
        let of = |by| Some(Generation(by));
        assert_eq!(run(100, true, None), None);
        assert_eq!(run(200, true, of(7)), Some((7, 200)));
        assert_eq!(run(300, true, of(7)), Some((7, 200)));
        assert_eq!(run(400, true, of(5)), Some((7, 200)), "some went");
        assert_eq!(run(450, false, None), Some((7, 200)), "it saw nothing");
        assert_eq!(run(500, true, of(9)), Some((9, 500)));
        assert_eq!(run(450, true, of(9)), Some((9, 450)), "the clock went back");
        assert_eq!(run(600, true, None), None);
    }

    #[test]
    fn what_is_written_says_all_of_the_schedule() {
        let mut memory = CollectMemory::from(CollectRecord::default());
        assert!(memory.last().is_none());
        memory.end(note(500, true, GIB));
        let stored = memory.end(CollectNote {
            urgency: Urgency::Full,
            ..note(900, false, 0)
        });
        assert_eq!(stored.sequence, 2);
        let again = CollectMemory::from(stored);
        assert_eq!(
            format!("{:?}", again.schedule),
            format!("{:?}", memory.schedule)
        );
        assert_eq!(
            stored.last.stored_bytes,
            100 * GIB,
            "of the run that came to its end"
        );
        let last = again.last().unwrap();
        assert!(!last.is_complete && last.urgency == Urgency::Full);
    }
}
