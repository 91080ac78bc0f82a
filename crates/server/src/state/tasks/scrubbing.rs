//! The scrub of a server: when it begins, and from where it repairs. The scrub thread, `scrub`,
//! `status` and the metrics call this.
//!
//! Invariant: the run itself is in the [`TaskSlot`].

use super::{TaskError, TaskSlot, seconds};
use crate::program::Replica;
use format::phase::TaskPhase;
use maintenance::{ControlledTask, ScrubStatus, Scrubber, TaskTotals, scrub_due_s};
use parking_lot::{Mutex, MutexGuard};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use units::UnixNanos;
use volumes::Volumes;

/// State of the scrub. See the module's head.
pub struct Scrubbing {
    volumes: Arc<Volumes>,
    /// The pass in progress.
    pub task: Arc<TaskSlot<Scrubber>>,
    /// True if the server, not a command, began the last pass.
    by_itself: AtomicBool,
    /// Replica for the repair at the end of the current pass.
    replica: Mutex<Option<Arc<Replica>>>,
    /// Replica for passes that were given none.
    standing: OnceLock<Arc<Replica>>,
}

impl Scrubbing {
    /// Reads the state that the last server recorded.
    pub fn of(volumes: &Arc<Volumes>) -> Self {
        Self {
            volumes: Arc::clone(volumes),
            task: Arc::new(TaskSlot::of(volumes.pool())),
            by_itself: AtomicBool::new(false),
            replica: Mutex::default(),
            standing: OnceLock::new(),
        }
    }

    /// Sets the replica for passes that are given none.
    pub fn repair_from(&self, replica: Replica) {
        // A server calls this once, at its start, so the value is never set already.
        let _ = self.standing.set(Arc::new(replica));
    }

    /// Returns the directory of the replica for passes that are given none.
    pub fn standing_replica(&self) -> Option<&Path> {
        self.standing.get().map(|replica| replica.path.as_path())
    }

    /// Returns the progress of the scrub.
    pub fn status(&self) -> ScrubStatus {
        let pool = self.volumes.pool();
        let status = self.task.status().map(|status| status.run);
        // The pool may have changed since the last pass.
        status.unwrap_or_default().in_pool(pool)
    }

    /// Returns the scrub totals of this server.
    pub fn totals(&self) -> TaskTotals {
        self.task.totals()
    }

    /// Begins a pass, or resumes the current one. `bytes_per_s` limits its rate.
    pub fn start(&self, bytes_per_s: Option<u64>) -> Result<(), TaskError> {
        if self.task.change(|scrubber| scrubber.limit(bytes_per_s)) {
            return Ok(());
        }
        if self.status().phase == TaskPhase::AtRest {
            self.by_itself.store(false, Relaxed);
        }
        let (pool, duet) = (self.volumes.pool(), self.volumes.duet());
        let mut scrubber = Scrubber::new(Arc::clone(pool), Arc::clone(duet));
        scrubber.start(bytes_per_s)?;
        self.task.begin(scrubber)?;
        Ok(())
    }

    /// Returns when the server begins the next pass, seconds since 1970. `within_s` is the time in
    /// which everything must be verified once; `created` is the time of the pool's creation. `None`
    /// if the server begins none, or a pass is in progress or paused.
    pub fn due_s(&self, now: UnixNanos, created: UnixNanos, within_s: u64) -> Option<u64> {
        let status = self.status();
        let began = status.verified().map(|_| seconds(status.last.began));
        let due_s = scrub_due_s(seconds(now), began, seconds(created), within_s);
        due_s.filter(|_| status.phase == TaskPhase::AtRest)
    }

    /// Begins a pass because one is due.
    pub fn start_by_itself(&self) -> Result<(), TaskError> {
        self.start(None)?;
        self.by_itself.store(true, Relaxed);
        Ok(())
    }

    /// Returns true if the server began the last pass.
    pub fn is_by_itself(&self) -> bool {
        self.by_itself.load(Relaxed)
    }

    /// Begins a pass. At its end, lost chunks are repaired from `replica`, if given.
    pub fn start_with(
        &self,
        replica: Option<Replica>,
        bytes_per_s: Option<u64>,
    ) -> Result<(), TaskError> {
        *self.replica() = replica.map(Arc::new);
        self.start(bytes_per_s)
    }

    /// Returns the replica for the repair after a pass: the pass's own, or else the server's.
    pub fn take_replica(&self) -> Option<Arc<Replica>> {
        let own = self.replica().take();
        own.or_else(|| self.standing.get().cloned())
    }

    fn replica(&self) -> MutexGuard<'_, Option<Arc<Replica>>> {
        self.replica.lock()
    }

    /// Pauses the pass until the next start.
    pub fn pause(&self) -> Result<(), TaskError> {
        self.task.stop(TaskPhase::Paused).map(drop)
    }
}
