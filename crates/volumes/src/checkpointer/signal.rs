//! Wakes the driver of checkpoints.
//!
//! Back-pressure signals; the server's destager thread waits.
//! Invariant: a signal without a waiting thread is kept for the next one that waits.

use parking_lot::{Condvar, Mutex};
use std::time::Duration;

/// The signal. See the module's head.
#[derive(Default)]
pub(crate) struct Signal {
    pressed: Mutex<bool>,
    work: Condvar,
}

impl Signal {
    /// Signals that there is work.
    pub fn press(&self) {
        *self.pressed.lock() = true;
        self.work.notify_one();
    }

    /// Waits until there is work, at most `at_most`. Returns true if there is.
    pub fn wait_for_work(&self, at_most: Duration) -> bool {
        let mut pressed = self.pressed.lock();
        self.work
            .wait_while_for(&mut pressed, |pressed| !*pressed, at_most);
        std::mem::replace(&mut *pressed, false)
    }

    /// Ends all waits, for shutdown.
    pub fn wake(&self) {
        *self.pressed.lock() = true;
        self.work.notify_all();
    }
}
