//! The collection of a held pool: who runs it, what it gave back, and when the next one is due.
//!
//! Invariant: one run at a time; one of the server's own ends at its next step when a command wants to
//! collect. Each is written down when it begins and when it ends, with no lock held; what cannot be written costs the
//! next server a look. Called by the server's thread, `gc`, `status` and the metrics.

use super::TaskBytes;
use crate::interrupt::Interrupt;
use anyhow::bail;
use format::collect::CollectRecord;
use maintenance::{
    CollectLimits, CollectMemory, CollectNote, CollectSchedule, GcCounts, GcStage, NextCollect,
    Urgency,
};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;
use store::{Discarded, Pool};
use units::UnixNanos;
use volumes::{Step, Volumes};

/// Waits for a run of the server to end, between looks at the wish to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Bytes of a step of a checkpoint.
const FOLD_BYTES: u64 = 8 << 20;

/// What was overwritten or discarded is needed until the checkpoint that says so: two of them, for what
/// one under way has not seen. They take what there is room for; what fails stays in the journal.
pub fn fold(volumes: &Volumes, interrupt: &Interrupt) {
    let mut commits = 0;
    while commits < 2 && !interrupt.requested() {
        match volumes.step(FOLD_BYTES) {
            Ok(Step::Working) => {}
            Ok(Step::Committed) => commits += 1,
            Ok(Step::Idle) | Err(_) => return,
        }
    }
}

/// Who began a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Initiator {
    /// `gc`.
    Command,
    /// The server itself.
    Server(Urgency),
}

impl Initiator {
    /// Of a run that begins now.
    fn note(self, pool: &Pool) -> CollectNote {
        match self {
            Self::Command => CollectNote::of(pool, Urgency::WhenIdle, true),
            Self::Server(urgency) => CollectNote::of(pool, urgency, false),
        }
    }
}

/// A run that has ended.
#[derive(Clone, Debug)]
pub struct Collected {
    /// Who began it.
    pub by: Initiator,
    /// When it ended.
    pub ended: UnixNanos,
    /// It came to its end.
    pub is_complete: bool,
    /// Bytes of containers that it deleted.
    pub deleted_bytes: u64,
    /// Bytes of containers that it put into the trash.
    pub discarded_bytes: u64,
}

/// What was done since the server began.
#[derive(Clone, Copy, Debug, Default)]
pub struct CollectTotals {
    /// Runs that commands began.
    pub runs_by_commands: u64,
    /// ... that the server began.
    pub runs_by_server: u64,
    /// Stored bytes that were deleted.
    pub deleted_bytes: u64,
    /// What was copied out of containers that went.
    pub copied: TaskBytes,
}

/// For who asks.
#[derive(Clone, Debug)]
pub struct CollectStatus {
    /// The run that goes on.
    pub running: Option<(Initiator, GcStage, GcCounts)>,
    /// The last one that ended.
    pub last: Option<Collected>,
    /// When the next one of the server's own is due; `None`: it begins none.
    pub next: Option<NextCollect>,
    /// All runs.
    pub totals: CollectTotals,
}

struct State {
    running: Option<(Initiator, GcStage, GcCounts)>,
    commands_waiting: usize,
    memory: CollectMemory,
    last: Option<Collected>,
    next: Option<NextCollect>,
    totals: CollectTotals,
}

/// See the module's head.
pub struct Collecting {
    pool: Arc<Pool>,
    state: Mutex<State>,
    changed: Condvar,
}

/// A run; the next one may begin when this is dropped.
pub struct Collection<'a> {
    of: &'a Collecting,
    by: Initiator,
}

/// The time as schedules count it.
pub fn seconds(time: UnixNanos) -> u64 {
    u64::try_from(time.0 / 1_000_000_000).unwrap_or(0)
}

impl Collected {
    /// As it was written down.
    pub fn of(note: &CollectNote) -> Self {
        Self {
            by: match note.by_command {
                true => Initiator::Command,
                false => Initiator::Server(note.urgency),
            },
            ended: note.at,
            is_complete: note.is_complete,
            deleted_bytes: note.deleted_bytes,
            discarded_bytes: note.discarded_bytes,
        }
    }
}

impl Collecting {
    /// As the last server left it.
    pub fn of(pool: &Arc<Pool>) -> Self {
        let mut memory = CollectMemory::of(pool);
        let last = memory.last().map(|note| Collected::of(&note));
        if last.is_none() {
            // The next server waits for the rest of the time only.
            let _ = CollectMemory::write(pool, memory.record());
        }
        Self {
            pool: Arc::clone(pool),
            state: Mutex::new(State {
                running: None,
                commands_waiting: 0,
                memory,
                last,
                next: None,
                totals: CollectTotals::default(),
            }),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Begins a command's run, once one of the server has made room for it; refuses a second command.
    pub fn begin(&self, interrupt: &Interrupt) -> anyhow::Result<Collection<'_>> {
        let mut state = self.state();
        state.commands_waiting += 1;
        let begun = loop {
            match state.running {
                None => break Ok(()),
                Some((Initiator::Command, ..)) => break Err(None),
                Some((Initiator::Server(_), ..)) => {}
            }
            if let Err(e) = interrupt.check() {
                break Err(Some(e));
            }
            let waited = self.changed.wait_timeout(state, LOOK_EVERY);
            state = waited.unwrap_or_else(|e| e.into_inner()).0;
        };
        state.commands_waiting -= 1;
        match begun {
            Ok(()) => Ok(self.begin_with(state, Initiator::Command)),
            Err(None) => bail!("space is being collected already (see quintet status)"),
            Err(Some(interrupted)) => Err(interrupted.into()),
        }
    }

    /// Begins a run of the server's own, unless a command collects or wants to.
    pub fn begin_by_itself(&self, urgency: Urgency) -> Option<Collection<'_>> {
        let state = self.state();
        let is_free = state.running.is_none() && state.commands_waiting == 0;
        is_free.then(|| self.begin_with(state, Initiator::Server(urgency)))
    }

    fn begin_with(&self, mut state: MutexGuard<'_, State>, by: Initiator) -> Collection<'_> {
        let begun = by.note(&self.pool);
        state.running = Some((by, GcStage::Purging, GcCounts::default()));
        let record = state.memory.begin(begun);
        drop(state);
        let collection = Collection { of: self, by };
        collection.write(record);
        collection
    }

    /// What the schedule says now, with these limits.
    pub fn schedule<T>(&self, limits: CollectLimits, ask: impl FnOnce(&CollectSchedule) -> T) -> T {
        let now = self.pool.now();
        let now_s = seconds(now);
        let mut state = self.state();
        // Between runs: one writes its own record.
        if state.running.is_none() {
            let stored_bytes = self.pool.record().stored_bytes;
            if let Some(record) = state.memory.see_size(now, stored_bytes) {
                let _ = CollectMemory::write(&self.pool, record);
            }
        }
        let schedule = state.memory.schedule();
        schedule.set(limits);
        schedule.see(now_s);
        ask(schedule)
    }

    /// What was seen in the trash before of a time that was not here yet.
    pub fn ahead(&self) -> Option<Discarded> {
        self.state().memory.ahead()
    }

    /// When the next run of the server's own is due; `None`: it begins none.
    pub fn expect(&self, next: Option<NextCollect>) {
        self.state().next = next;
    }

    /// How it is.
    pub fn status(&self) -> CollectStatus {
        let state = self.state();
        CollectStatus {
            running: state.running,
            last: state.last.clone(),
            next: state.next,
            totals: state.totals,
        }
    }
}

impl Collection<'_> {
    /// How far it is.
    pub fn tell(&self, stage: GcStage, counts: GcCounts) {
        self.of.state().running = Some((self.by, stage, counts));
    }

    /// A command waits to collect.
    pub fn is_to_end(&self) -> bool {
        self.of.state().commands_waiting > 0
    }

    /// It has ended.
    pub fn end(self, is_complete: bool) {
        let begun = self.by.note(&self.of.pool);
        let mut state = self.of.state();
        let (_, _, counts) = state
            .running
            .unwrap_or((self.by, GcStage::Done, GcCounts::default()));
        let totals = &mut state.totals;
        match self.by {
            Initiator::Command => totals.runs_by_commands += 1,
            Initiator::Server(_) => totals.runs_by_server += 1,
        }
        totals.deleted_bytes += counts.deleted_bytes;
        totals.copied = totals
            .copied
            .plus(TaskBytes::of(counts.copied_bytes, counts.cached_bytes));
        // Nobody counts it twice before the next run may begin.
        state.running = Some((self.by, GcStage::Done, GcCounts::default()));
        let note = CollectNote {
            is_complete,
            deleted_bytes: counts.deleted_bytes,
            discarded_bytes: counts.discarded_bytes,
            ahead_by: counts.ahead_by,
            ..begun
        };
        let record = state.memory.end(note);
        state.last = Some(Collected::of(&note));
        drop(state);
        self.write(record);
    }

    fn write(&self, record: CollectRecord) {
        let _ = CollectMemory::write(&self.of.pool, record);
    }
}

impl Drop for Collection<'_> {
    fn drop(&mut self) {
        self.of.state().running = None;
        self.of.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_goes_before_the_server_and_two_do_not_run_at_once() {
        let top = tempfile::tempdir().unwrap();
        let held = crate::metrics::tests::held(top.path());
        let collecting = &held.collecting;
        let interrupt = Interrupt::of_command().unwrap();
        let own = collecting.begin_by_itself(Urgency::Low).unwrap();
        assert!(collecting.begin_by_itself(Urgency::Full).is_none());
        assert!(!own.is_to_end());
        std::thread::scope(|scope| {
            let command = scope.spawn(|| collecting.begin(&interrupt).unwrap());
            while !own.is_to_end() {
                std::thread::yield_now();
            }
            own.end(false);
            let command = command.join().unwrap();
            assert!(collecting.begin_by_itself(Urgency::Full).is_none());
            assert!(
                collecting.begin(&interrupt).is_err(),
                "one command at a time"
            );
            let counts = GcCounts {
                deleted_bytes: 7,
                copied_bytes: 5,
                cached_bytes: 3,
                ..GcCounts::default()
            };
            command.tell(GcStage::Copying, counts);
            command.end(true);
        });
        let status = collecting.status();
        assert!(status.running.is_none());
        assert_eq!(status.totals.runs_by_server, 1);
        assert_eq!(status.totals.runs_by_commands, 1);
        assert_eq!(status.totals.deleted_bytes, 7);
        assert_eq!(status.totals.copied, TaskBytes { disk: 2, cache: 3 });
        let last = status.last.unwrap();
        assert_eq!((last.by, last.is_complete), (Initiator::Command, true));
        // The next server knows.
        let next = Collecting::of(&held.pool).status();
        let known = next.last.unwrap();
        assert_eq!((known.by, known.ended), (last.by, last.ended));
        assert_eq!((known.deleted_bytes, known.is_complete), (7, true));
        assert_eq!(next.totals.deleted_bytes, 0, "its own");
        // Who gives up waiting leaves nothing behind.
        let own = collecting.begin_by_itself(Urgency::Low).unwrap();
        interrupt.request();
        assert!(collecting.begin(&interrupt).is_err());
        assert!(!own.is_to_end());
        // Who dies now has left a run that did not end.
        let last = Collecting::of(&held.pool).status().last.unwrap();
        assert_eq!(last.by, Initiator::Server(Urgency::Low));
        assert!(!last.is_complete);
    }
}
