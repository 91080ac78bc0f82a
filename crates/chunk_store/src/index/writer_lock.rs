//! The index writer lock: at most one thread at a time merges, grows, commits or resets. The index
//! calls this.
//!
//! Invariant: the state of the file ([`Standing`]) moves with the permit, so no mutex is held while
//! its owner does I/O.

use super::table::Standing;
use parking_lot::{Condvar, Mutex};

/// The index writer lock, with the state of the file while it is free.
pub(super) struct WriterLock {
    state: Mutex<LockState>,
    left: Condvar,
}

struct LockState {
    taken: bool,
    standing: Option<Standing>,
}

/// The permit. Dropping it frees the lock.
pub(super) struct LockedWriter<'a> {
    writer_lock: &'a WriterLock,
    /// State of the file. `None` if this index never writes or has no file.
    pub(super) standing: Option<Standing>,
}

impl WriterLock {
    /// Creates a free lock.
    pub(super) fn new(standing: Option<Standing>) -> Self {
        Self {
            state: Mutex::new(LockState {
                taken: false,
                standing,
            }),
            left: Condvar::new(),
        }
    }

    /// Waits until the lock is free and takes it.
    pub(super) fn take(&self) -> LockedWriter<'_> {
        let mut state = self.state.lock();
        while state.taken {
            self.left.wait(&mut state);
        }
        state.taken = true;
        LockedWriter {
            writer_lock: self,
            standing: state.standing.take(),
        }
    }
}

impl Drop for LockedWriter<'_> {
    fn drop(&mut self) {
        let mut state = self.writer_lock.state.lock();
        state.taken = false;
        state.standing = self.standing.take();
        self.writer_lock.left.notify_one();
    }
}
