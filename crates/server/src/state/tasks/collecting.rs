//! State of garbage collection in a server: the run in progress, its result, and the time of the
//! next run. The gc thread, `gc`, `status` and the metrics call this.
//!
//! Invariant: at most one run at a time. A run that the server began ends at its next step when a
//! command wants to run gc. The begin and the end of each run are recorded with no lock held. A
//! failed record is ignored: the next server then examines the pool again.

use super::TaskError;
use format::collect::CollectRecord;
use maintenance::{
    CollectLimits, CollectMemory, CollectNote, CollectSchedule, GcCounts, GcRun, GcStage,
    NextCollect, TaskBytes, TaskReport, Urgency,
};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Duration;
use store::{Discarded, Pool};
use terminal::interrupt::Interrupt;
use units::UnixNanos;
use volumes::{CheckpointStep, Volumes};

/// Time between two checks for a stop request, while a command waits for the server's run to end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Size of a checkpoint step, bytes.
const CHECKPOINT_BYTES: u64 = 8 << 20;

/// Makes two checkpoints before gc. Overwritten and discarded chunks are garbage only after the
/// checkpoint that commits the change. The first of the two may have begun before the last change.
/// Failures are ignored: the writes stay in the journal.
pub fn checkpoint_all(volumes: &Volumes, interrupt: &Interrupt) {
    let mut commits = 0;
    while commits < 2 && !interrupt.requested() {
        match volumes.step(CHECKPOINT_BYTES) {
            Ok(CheckpointStep::Working) => {}
            Ok(CheckpointStep::Committed) => commits += 1,
            Ok(CheckpointStep::Idle) | Err(_) => return,
        }
    }
}

/// Totals since the server began.
#[derive(Clone, Copy, Debug, Default)]
pub struct CollectTotals {
    /// Number of runs that commands began.
    pub runs_by_commands: u64,
    /// Number of runs that the server began.
    pub runs_by_server: u64,
    /// Stored bytes that were deleted.
    pub deleted_bytes: u64,
    /// Bytes that were copied out of sparse containers.
    pub copied: TaskBytes,
}

/// Snapshot of the state for `status`, `top` and the metrics.
#[derive(Clone, Debug)]
pub struct CollectStatus {
    /// The run in progress.
    pub running: Option<GcRun>,
    /// The last run that ended.
    pub last: Option<CollectNote>,
    /// When the server begins its next run. `None`: it begins none.
    pub next: Option<NextCollect>,
    /// Totals of all runs.
    pub totals: CollectTotals,
}

struct CollectState {
    running: Option<GcRun>,
    commands_waiting: usize,
    memory: CollectMemory,
    last: Option<CollectNote>,
    next: Option<NextCollect>,
    totals: CollectTotals,
}

/// State of garbage collection. See the module's head.
pub struct Collecting {
    pool: Arc<Pool>,
    state: Mutex<CollectState>,
    changed: Condvar,
}

/// A run in progress. The next run may begin when this is dropped.
pub struct Collection<'a> {
    of: &'a Collecting,
}

/// Returns whole seconds since 1970, as schedules count them. 0 for earlier times.
pub fn seconds(time: UnixNanos) -> u64 {
    u64::try_from(time.0 / 1_000_000_000).unwrap_or(0)
}

impl Collecting {
    /// Reads the state that the last server recorded.
    pub fn of(pool: &Arc<Pool>) -> Self {
        let mut memory = CollectMemory::of(pool);
        let last = memory.last();
        if last.is_none() {
            // Without a record, the next server would wait its full interval again after a restart.
            let _ = CollectMemory::write(pool, memory.record());
        }
        Self {
            pool: Arc::clone(pool),
            state: Mutex::new(CollectState {
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

    /// Begins a command's run. Waits until a run of the server has ended. Refuses a second command.
    pub fn begin(&self, interrupt: &Interrupt) -> Result<Collection<'_>, TaskError> {
        let mut state = self.state.lock();
        state.commands_waiting += 1;
        let begun = loop {
            match &state.running {
                None => break Ok(()),
                Some(run) if run.begun.by_command => break Err(TaskError::Collecting),
                Some(_) => {}
            }
            if let Err(e) = interrupt.check() {
                break Err(e.into());
            }
            self.changed.wait_for(&mut state, LOOK_EVERY);
        };
        state.commands_waiting -= 1;
        begun.map(|()| self.begin_with(state, Urgency::WhenIdle, true))
    }

    /// Begins a run of the server. `None` if a run is in progress or a command waits for one.
    pub fn begin_by_itself(&self, urgency: Urgency) -> Option<Collection<'_>> {
        let state = self.state.lock();
        let is_free = state.running.is_none() && state.commands_waiting == 0;
        is_free.then(|| self.begin_with(state, urgency, false))
    }

    fn begin_with(
        &self,
        mut state: MutexGuard<'_, CollectState>,
        urgency: Urgency,
        by_command: bool,
    ) -> Collection<'_> {
        let run = GcRun::new(&self.pool, urgency, by_command);
        state.running = Some(run);
        let record = state.memory.begin(run.begun);
        drop(state);
        let collection = Collection { of: self };
        collection.write(record);
        collection
    }

    /// Calls `ask` with the schedule, updated to the present time and to these limits.
    pub fn schedule<T>(&self, limits: CollectLimits, ask: impl FnOnce(&CollectSchedule) -> T) -> T {
        let now = self.pool.now();
        let now_s = seconds(now);
        let mut state = self.state.lock();
        // A run in progress records the size itself.
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

    /// Reports the progress of the run in progress, if there is one, and the bytes that it has left
    /// to copy.
    pub fn tell(&self, stage: GcStage, counts: GcCounts, to_copy_bytes: u64) {
        if let Some(run) = &mut self.state.lock().running {
            (run.stage, run.counts, run.to_copy_bytes) = (stage, counts, to_copy_bytes);
        }
    }

    /// Returns the newest trash entry with a time in the future that a run has seen, if any: for
    /// the policy of the next run.
    pub fn ahead(&self) -> Option<Discarded> {
        self.state.lock().memory.ahead()
    }

    /// Sets the time at which the server begins its next run. `None`: it begins none.
    pub fn expect(&self, next: Option<NextCollect>) {
        self.state.lock().next = next;
    }

    /// Returns the present state.
    pub fn status(&self) -> CollectStatus {
        let state = self.state.lock();
        CollectStatus {
            running: state.running,
            last: state.last,
            next: state.next,
            totals: state.totals,
        }
    }
}

impl Collection<'_> {
    /// Reports the progress of this run, and the bytes that it has left to copy.
    pub fn tell(&self, stage: GcStage, counts: GcCounts, to_copy_bytes: u64) {
        self.of.tell(stage, counts, to_copy_bytes);
    }

    /// Returns true if a command waits to run gc.
    pub fn is_to_end(&self) -> bool {
        self.of.state.lock().commands_waiting > 0
    }

    /// Records that the run has ended.
    pub fn end(self, is_complete: bool) {
        let mut state = self.of.state.lock();
        let CollectState {
            running, totals, ..
        } = &mut *state;
        // Only the drop of this value removes the run.
        let Some(run) = running else {
            return;
        };
        let note = run.ended(&self.of.pool, is_complete);
        match note.by_command {
            true => totals.runs_by_commands += 1,
            false => totals.runs_by_server += 1,
        }
        totals.deleted_bytes += note.deleted_bytes;
        totals.copied = totals.copied.plus(run.totals().bytes);
        // The counts are in the totals now: reset them, or `status` would add them twice.
        (run.stage, run.counts) = (GcStage::Done, GcCounts::default());
        let record = state.memory.end(note);
        state.last = Some(note);
        drop(state);
        self.write(record);
    }

    fn write(&self, record: CollectRecord) {
        let _ = CollectMemory::write(&self.of.pool, record);
    }
}

impl Drop for Collection<'_> {
    fn drop(&mut self) {
        self.of.state.lock().running = None;
        self.of.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_goes_before_the_server_and_two_do_not_run_at_once() {
        let top = tempfile::tempdir().unwrap();
        let server = crate::metrics::tests::server_state(top.path());
        let collecting = &server.tasks.collecting;
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
            command.tell(GcStage::Copying, counts, 0);
            command.end(true);
        });
        let status = collecting.status();
        assert!(status.running.is_none());
        assert_eq!(status.totals.runs_by_server, 1);
        assert_eq!(status.totals.runs_by_commands, 1);
        assert_eq!(status.totals.deleted_bytes, 7);
        assert_eq!(status.totals.copied, TaskBytes { disk: 2, cache: 3 });
        let last = status.last.unwrap();
        assert!(last.by_command && last.is_complete);
        // The next server reads the record.
        let next = Collecting::of(&server.pool).status();
        let known = next.last.unwrap();
        assert_eq!((known.by_command, known.at), (true, last.at));
        assert_eq!((known.deleted_bytes, known.is_complete), (7, true));
        assert_eq!(next.totals.deleted_bytes, 0, "its own");
        // A caller that stops waiting leaves no trace.
        let own = collecting.begin_by_itself(Urgency::Low).unwrap();
        interrupt.request();
        assert!(collecting.begin(&interrupt).is_err());
        assert!(!own.is_to_end());
        // A server that dies now leaves the record of an incomplete run.
        let last = Collecting::of(&server.pool).status().last.unwrap();
        assert_eq!((last.by_command, last.urgency), (false, Urgency::Low));
        assert!(!last.is_complete);
    }
}
