//! The scrub of a held pool: one object that a thread works on and commands switch.
//!
//! Invariant: the lock is held for a step at most. Called by the server's thread, `scrub`, `status` and
//! the metrics.

use super::{Replica, seconds};
use format::phase::TaskPhase;
use maintenance::{ScrubStatus, ScrubTotals, Scrubber, scrub_due_s};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::Duration;
use units::UnixNanos;
use volumes::Volumes;

/// See the module's head.
pub struct Scrubbing {
    scrubber: Mutex<Scrubber>,
    /// The pass that began last was the server's own wish.
    by_itself: AtomicBool,
    changed: Condvar,
    /// From which the pass that is under way repairs when it ends.
    replica: Mutex<Option<Arc<Replica>>>,
    /// From which passes repair that were given none.
    standing: OnceLock<Arc<Replica>>,
}

impl Scrubbing {
    /// As the last server left it.
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

    /// From now on passes that are given no replica repair from this one.
    pub fn repair_from(&self, replica: Replica) {
        // A server says so once, at its start.
        let _ = self.standing.set(Arc::new(replica));
    }

    /// Where the replica is from which passes repair that are given none.
    pub fn standing_replica(&self) -> Option<&Path> {
        self.standing.get().map(|replica| replica.path.as_path())
    }

    /// For a step.
    pub fn scrubber(&self) -> MutexGuard<'_, Scrubber> {
        self.scrubber.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// How far it is.
    pub fn status(&self) -> ScrubStatus {
        self.scrubber().status()
    }

    /// What this server has done of it.
    pub fn totals(&self) -> ScrubTotals {
        self.scrubber().totals()
    }

    /// Begins a pass, or goes on.
    pub fn start(&self, bytes_per_s: Option<u64>) -> anyhow::Result<()> {
        let mut scrubber = self.scrubber();
        if scrubber.status().phase == TaskPhase::AtRest {
            self.by_itself.store(false, Relaxed);
        }
        scrubber.start(bytes_per_s)?;
        scrubber.record()?;
        self.changed.notify_all();
        Ok(())
    }

    /// When the server begins the next pass by itself, seconds since 1970, if it is `now`, that should take
    /// `within_s` and the pool was made then. `None`: not by itself, or one is under way or paused.
    pub fn due_s(&self, now: UnixNanos, created: UnixNanos, within_s: u64) -> Option<u64> {
        let status = self.status();
        let began = status.verified().map(|_| seconds(status.last.began));
        let due_s = scrub_due_s(seconds(now), began, seconds(created), within_s);
        due_s.filter(|_| status.phase == TaskPhase::AtRest)
    }

    /// Begins a pass because it is time.
    pub fn start_by_itself(&self) -> anyhow::Result<()> {
        self.start(None)?;
        self.by_itself.store(true, Relaxed);
        Ok(())
    }

    /// True when the server began the last pass by itself.
    pub fn is_by_itself(&self) -> bool {
        self.by_itself.load(Relaxed)
    }

    /// The same; when the pass ends, what is lost is repaired from this replica, if there is one.
    pub fn start_with(
        &self,
        replica: Option<Replica>,
        bytes_per_s: Option<u64>,
    ) -> anyhow::Result<()> {
        *self.replica() = replica.map(Arc::new);
        self.start(bytes_per_s)
    }

    /// The replica of the pass that has ended.
    pub fn take_replica(&self) -> Option<Arc<Replica>> {
        let own = self.replica().take();
        own.or_else(|| self.standing.get().cloned())
    }

    fn replica(&self) -> MutexGuard<'_, Option<Arc<Replica>>> {
        self.replica.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Stops until the next start.
    pub fn pause(&self) -> anyhow::Result<()> {
        Ok(self.scrubber().pause()?)
    }

    /// Waits until something is switched, at most so long; not at all when `unless` is so.
    pub fn wait(&self, at_most: Duration, unless: impl FnOnce() -> bool) {
        let scrubber = self.scrubber();
        if unless() {
            return;
        }
        let _ = self.changed.wait_timeout(scrubber, at_most);
    }

    /// Ends a wait.
    pub fn wake(&self) {
        let _scrubber = self.scrubber();
        self.changed.notify_all();
    }
}
