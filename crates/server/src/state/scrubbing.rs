//! State of the scrub in a server: one scrubber that a thread works on and that commands control.
//! The scrub thread, `scrub`, `status` and the metrics call this.
//!
//! Invariant: the lock is held for at most one step.

use super::{Replica, TaskError, seconds};
use format::phase::TaskPhase;
use maintenance::{ScrubStatus, ScrubTotals, Scrubber, scrub_due_s};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use units::UnixNanos;
use volumes::Volumes;

/// State of the scrub. See the module's head.
pub struct Scrubbing {
    scrubber: Mutex<Scrubber>,
    /// True if the server, not a command, began the last pass.
    by_itself: AtomicBool,
    changed: Condvar,
    /// Replica for the repair at the end of the current pass.
    replica: Mutex<Option<Arc<Replica>>>,
    /// Replica for passes that were given none.
    standing: OnceLock<Arc<Replica>>,
}

impl Scrubbing {
    /// Reads the state that the last server recorded.
    pub fn of(volumes: &Volumes) -> Self {
        let scrubber = Scrubber::new(volumes.pool().clone(), volumes.duet().clone());
        Self {
            scrubber: Mutex::new(scrubber),
            by_itself: AtomicBool::new(false),
            changed: Condvar::new(),
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

    /// Locks the scrubber for a step.
    pub fn scrubber(&self) -> MutexGuard<'_, Scrubber> {
        self.scrubber.lock()
    }

    /// Returns the progress of the scrub.
    pub fn status(&self) -> ScrubStatus {
        self.scrubber().status()
    }

    /// Returns the scrub totals of this server.
    pub fn totals(&self) -> ScrubTotals {
        self.scrubber().totals()
    }

    /// Begins a pass, or resumes the current one. `bytes_per_s` limits its rate.
    pub fn start(&self, bytes_per_s: Option<u64>) -> Result<(), TaskError> {
        let mut scrubber = self.scrubber();
        if scrubber.status().phase == TaskPhase::AtRest {
            self.by_itself.store(false, Relaxed);
        }
        scrubber.start(bytes_per_s)?;
        scrubber.record()?;
        self.changed.notify_all();
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
        Ok(self.scrubber().pause()?)
    }

    /// Waits for a change, at most `at_most`. Returns at once if `unless()` is true.
    pub fn wait(&self, at_most: Duration, unless: impl FnOnce() -> bool) {
        let mut scrubber = self.scrubber();
        if unless() {
            return;
        }
        self.changed.wait_for(&mut scrubber, at_most);
    }

    /// Ends a wait.
    pub fn wake(&self) {
        let _scrubber = self.scrubber();
        self.changed.notify_all();
    }
}
