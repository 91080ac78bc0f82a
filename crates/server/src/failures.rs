//! Failures of operations that recur: requests to volumes, checkpoints, and reading the rules of
//! iSCSI access. Meters and threads record them, `status` and the metrics read them.
//!
//! Invariant: the last failure stays until its recorder clears it: a meter after a successful
//! flush, the checkpoint thread after a commit, the reader of the rules when they are in force.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The present failure, if any. See the module's head.
#[derive(Debug, Default)]
pub struct LastFailure {
    /// Checked before the lock: success is the common case and must stay cheap.
    present: AtomicBool,
    what: Mutex<Option<String>>,
}

impl LastFailure {
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

/// Present failures of a server.
#[derive(Debug, Default)]
pub struct Failures {
    /// The last request to a volume that the store failed or had no space for, until a flush
    /// succeeds.
    pub requests: Arc<LastFailure>,
    /// The last failed checkpoint, until one succeeds.
    pub checkpoints: LastFailure,
    /// Why the file of iSCSI access is not in force as it is now, until it is.
    pub iscsi_access: LastFailure,
}

impl Failures {
    /// Returns messages about writes that fail at the moment. Empty if all is well.
    pub fn messages(&self) -> Vec<String> {
        let requests = self.requests.read();
        let requests = requests.map(|what| format!("writes to volumes fail: {what}"));
        let checkpoints = self.checkpoints.read();
        let checkpoints = checkpoints.map(|what| format!("checkpoints fail: {what}"));
        requests.into_iter().chain(checkpoints).collect()
    }
}
