//! The scrub of a held pool: one object that a thread works on and commands switch.
//!
//! Invariant: the lock is held for a step at most. Called by the server's thread, `scrub`, `status` and
//! the metrics.

use maintenance::{ScrubStatus, ScrubTotals, Scrubber};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;
use store::Volumes;

/// See the module's head.
pub struct Scrubbing {
    scrubber: Mutex<Scrubber>,
    changed: Condvar,
}

impl Scrubbing {
    /// As the last server left it.
    pub fn of(volumes: &Volumes) -> Self {
        let scrubber = Scrubber::new(volumes.pool().clone(), volumes.duet().clone());
        Self {
            scrubber: Mutex::new(scrubber),
            changed: Condvar::new(),
        }
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
        scrubber.start(bytes_per_s)?;
        scrubber.record()?;
        self.changed.notify_all();
        Ok(())
    }

    /// Stops until the next start.
    pub fn pause(&self) -> anyhow::Result<()> {
        Ok(self.scrubber().pause()?)
    }

    /// Waits until something is switched, at most so long.
    pub fn wait(&self, at_most: Duration) {
        let scrubber = self.scrubber();
        let _ = self.changed.wait_timeout(scrubber, at_most);
    }

    /// Ends a wait.
    pub fn wake(&self) {
        let _scrubber = self.scrubber();
        self.changed.notify_all();
    }
}
