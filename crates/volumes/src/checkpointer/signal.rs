//! How writers tell whoever drives checkpoints that there is work.
//!
//! Invariant: what was told while nobody waited is heard by who waits next. Called by back-pressure
//! and the program.

use parking_lot::{Condvar, Mutex};
use std::time::Duration;

/// See the module's head.
#[derive(Default)]
pub(crate) struct Signal {
    pressed: Mutex<bool>,
    work: Condvar,
}

impl Signal {
    /// There is work for the driver.
    pub fn press(&self) {
        *self.pressed.lock() = true;
        self.work.notify_one();
    }

    /// Waits until there is work, at most so long. True when there is.
    pub fn wait_for_work(&self, at_most: Duration) -> bool {
        let mut pressed = self.pressed.lock();
        self.work
            .wait_while_for(&mut pressed, |pressed| !*pressed, at_most);
        std::mem::replace(&mut *pressed, false)
    }

    /// For shutting down: whoever waits for work stops waiting.
    pub fn wake(&self) {
        *self.pressed.lock() = true;
        self.work.notify_all();
    }
}
