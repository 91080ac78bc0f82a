//! Makes writers wait while the server frees space on the pool's disk, instead of letting them fill
//! it and fail.
//!
//! The write path waits here; the server switches it on and off.
//! Invariant: a waiting writer holds no lock and has chosen no place for a chunk: garbage
//! collection needs both. Writers wait only while the server frees space and says so. Then
//! checkpoints and large writes wait, small writes once the journal is full, and flushes of clients
//! if there is no space for open containers.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use store::Pool;

/// Free space is polled at this interval.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// State of the waiting. See the module's head.
pub(crate) struct WriterWaits {
    pool: Arc<Pool>,
    /// Writers wait while less space is free; 0: they do not wait.
    keep_free_bytes: AtomicU64,
    changed: Condvar,
    lock: Mutex<()>,
    waits: AtomicU64,
    waited_ns: AtomicU64,
}

/// How often and how long writers waited for space on the disk, with the waits that go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriterWaitCounts {
    /// Number of waits.
    pub waits: u64,
    /// Approximate sum of their durations, nanoseconds.
    pub waited_ns: u64,
}

impl WriterWaits {
    pub fn new(pool: Arc<Pool>) -> Self {
        Self {
            pool,
            keep_free_bytes: AtomicU64::new(0),
            changed: Condvar::new(),
            lock: Mutex::default(),
            waits: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
        }
    }

    pub fn counts(&self) -> WriterWaitCounts {
        WriterWaitCounts {
            waits: self.waits.load(Relaxed),
            waited_ns: self.waited_ns.load(Relaxed),
        }
    }

    /// Makes writers wait while less than `bytes` are free; 0 ends that.
    pub fn keep_free(&self, bytes: u64) {
        self.keep_free_bytes.store(bytes, Relaxed);
        let _looking = self.lock.lock();
        self.changed.notify_all();
    }

    /// Returns true while writers should leave the free space to the server.
    pub fn is_held_back(&self) -> bool {
        let keep = self.keep_free_bytes.load(Relaxed);
        keep > 0 && self.pool.room().is_some_and(|room| room.free_bytes < keep)
    }

    /// Waits until writers need not wait, for about `at_most`. Returns true if they still must.
    pub fn wait_while_held_back(&self, at_most: Duration) -> bool {
        let looks = at_most.as_millis() / LOOK_EVERY.as_millis();
        let mut looking = self.lock.lock();
        for _ in 0..looks {
            if !self.is_held_back() {
                return false;
            }
            self.changed.wait_for(&mut looking, LOOK_EVERY);
        }
        self.is_held_back()
    }

    /// Delays a writer until there is space. It must hold no locks: see the module's head.
    pub fn hold_back(&self) {
        let look_ns = u64::try_from(LOOK_EVERY.as_nanos()).unwrap_or(u64::MAX);
        let mut is_counted = false;
        while self.wait_while_held_back(LOOK_EVERY) {
            // Counted while it goes on: a wait may be long.
            self.waited_ns.fetch_add(look_ns, Relaxed);
            if !std::mem::replace(&mut is_counted, true) {
                self.waits.fetch_add(1, Relaxed);
            }
        }
    }
}
