//! The last failure of an operation that recurs, for `status` and the metrics. Meters and the
//! checkpoint thread call this.
//!
//! Invariant: holds the last failure until the caller clears it: a meter after a successful flush,
//! the checkpoint thread after a commit.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The present failure, if any. See the module's head.
#[derive(Debug, Default)]
pub struct Trouble {
    /// Checked before the lock: success is the common case and must stay cheap.
    present: AtomicBool,
    what: Mutex<Option<String>>,
}

impl Trouble {
    /// Records a failure.
    pub fn note(&self, what: String) {
        *self.what.lock() = Some(what);
        self.present.store(true, Relaxed);
    }

    /// Records a success: forgets the failure.
    pub fn clear(&self) {
        if self.present.swap(false, Relaxed) {
            *self.what.lock() = None;
        }
    }

    /// Returns the last failure that no success has followed.
    pub fn read(&self) -> Option<String> {
        let what = self.what.lock();
        what.clone()
    }
}
