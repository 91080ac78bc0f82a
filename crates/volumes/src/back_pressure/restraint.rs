//! Writers wait while room is made on the pool's disk, instead of filling it and failing.
//!
//! Invariant: who waits here holds no lock and has chosen no place for a chunk: the collector needs both.
//! Nobody waits unless somebody who makes room has said that it is worth it; and then checkpoints and large
//! writes wait, and small ones once the journal is full. Called by who writes to volumes; switched by the program.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use store::Pool;

/// Room comes back without a word: who waits looks so often.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// See the module's head.
pub(crate) struct Restraint {
    pool: Arc<Pool>,
    /// Less free than this, and writers wait; 0: they do not.
    keep_free_bytes: AtomicU64,
    changed: Condvar,
    lock: Mutex<()>,
    waits: AtomicU64,
    waited_ns: AtomicU64,
}

/// How often writers waited for room on the disk, and how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestraintCounts {
    /// Times that a writer waited.
    pub waits: u64,
    /// All of them together, nanoseconds, about.
    pub waited_ns: u64,
}

impl Restraint {
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

    pub fn counts(&self) -> RestraintCounts {
        RestraintCounts {
            waits: self.waits.load(Relaxed),
            waited_ns: self.waited_ns.load(Relaxed),
        }
    }

    /// From now on writers wait while less than this is free; 0: they do not wait.
    pub fn keep_free(&self, bytes: u64) {
        self.keep_free_bytes.store(bytes, Relaxed);
        let _looking = self.lock.lock();
        self.changed.notify_all();
    }

    /// True while writers should leave the rest of the disk to whoever makes room.
    pub fn is_held_back(&self) -> bool {
        let keep = self.keep_free_bytes.load(Relaxed);
        keep > 0 && self.pool.room().is_some_and(|room| room.free_bytes < keep)
    }

    /// Returns when writers need not wait, or after so long, about. True: they still have to.
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

    /// A writer waits for room. It must hold nothing: see the module's head.
    pub fn hold_back(&self) {
        let mut waited = Duration::ZERO;
        while self.wait_while_held_back(LOOK_EVERY) {
            waited += LOOK_EVERY;
        }
        if waited.is_zero() {
            return;
        }
        let waited_ns = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        self.waits.fetch_add(1, Relaxed);
        self.waited_ns.fetch_add(waited_ns, Relaxed);
    }
}
