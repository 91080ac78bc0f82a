//! Whose turn it is to wait for requests.
//!
//! Invariant: one thread at a time waits in the kernel. It serves what is quick itself and asks for
//! more; before it serves what may take long it passes the turn on. With all threads waiting in the
//! kernel each request would wake another one: several times the processor time of a request that
//! finds its bytes in memory (decision 16). Threads of a session call this.

use parking_lot::{Condvar, Mutex};

/// Handed from thread to thread.
#[derive(Default)]
pub(crate) struct Turn {
    taken: Mutex<bool>,
    free: Condvar,
}

/// It is this thread's turn until this is dropped.
pub(crate) struct Taken<'a>(&'a Turn);

impl Turn {
    /// Waits for the turn.
    pub fn take(&self) -> Taken<'_> {
        let mut taken = self.taken.lock();
        while *taken {
            self.free.wait(&mut taken);
        }
        *taken = true;
        Taken(self)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.0.taken.lock() = false;
        self.0.free.notify_one();
    }
}
