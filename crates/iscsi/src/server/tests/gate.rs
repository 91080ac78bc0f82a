//! Holds requests of a volume until a test lets them go on.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use volume::{Operation, Slow, Volume};

#[derive(Default)]
pub(super) struct Gate {
    is_open: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    pub(super) fn open(&self) {
        *self.is_open.lock() = true;
        self.changed.notify_all();
    }

    pub(super) fn is_open(&self) -> bool {
        *self.is_open.lock()
    }
}

/// Returns a volume whose requests of one kind wait until the gate opens, the gate, and a message
/// for each of them that has come.
pub(super) fn held<V: Volume>(
    volume: V,
    operation: Operation,
) -> (Slow<V>, Arc<Gate>, Receiver<()>) {
    let gate = Arc::<Gate>::default();
    let (held, (came, comes)) = (Arc::clone(&gate), channel());
    let slow = Slow::new(volume, move |request| {
        if request.operation == operation {
            let _ = came.send(());
            let is_open = &mut held.is_open.lock();
            held.changed.wait_while(is_open, |is_open| !*is_open);
        }
    });
    (slow, gate, comes)
}
