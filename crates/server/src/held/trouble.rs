//! What a server cannot do at the moment, for `status` and the metrics.
//!
//! Invariant: holds the last failure that was not followed by a success of the same kind. Called by
//! meters and by the thread that makes checkpoints.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// See the module's head.
#[derive(Debug, Default)]
pub struct Trouble {
    /// Looked at before the lock is taken: success is what usually happens.
    present: AtomicBool,
    what: Mutex<Option<String>>,
}

impl Trouble {
    /// It failed.
    pub fn note(&self, what: String) {
        *self.what.lock() = Some(what);
        self.present.store(true, Relaxed);
    }

    /// It works.
    pub fn clear(&self) {
        if self.present.swap(false, Relaxed) {
            *self.what.lock() = None;
        }
    }

    /// What failed last, unless it works again.
    pub fn read(&self) -> Option<String> {
        let what = self.what.lock();
        what.clone()
    }
}
