//! Lets one thread at a time wait for requests. Threads of a session call this.
//!
//! Invariant: only the thread with the turn waits in the kernel. It serves quick requests itself
//! and waits for more. Before it serves a request that may take long, it passes the turn on.
//! If all threads waited in the kernel, each request would wake another one. For a request that
//! finds its bytes in memory that takes several times the processor time (decision 16).

use parking_lot::{Condvar, Mutex};

/// The right to wait for requests, passed from thread to thread.
#[derive(Default)]
pub(crate) struct Leader {
    taken: Mutex<bool>,
    free: Condvar,
}

/// This thread has the turn until this is dropped.
pub(crate) struct Leading<'a>(&'a Leader);

impl Leader {
    /// Waits for the turn.
    pub fn take(&self) -> Leading<'_> {
        let mut taken = self.taken.lock();
        while *taken {
            self.free.wait(&mut taken);
        }
        *taken = true;
        Leading(self)
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        *self.0.taken.lock() = false;
        self.0.free.notify_one();
    }
}
