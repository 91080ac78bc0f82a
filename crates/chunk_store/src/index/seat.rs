//! The writer's seat: at most one thread at a time merges, grows, commits or resets.
//!
//! Invariant: what is known of the file travels with the seat, so no lock is held while the one who
//! sits does I/O; whoever waits, waits for a permit. Called by the index.

use super::table::Standing;
use parking_lot::{Condvar, Mutex};

/// The seat, and what lies on it while it is free.
pub(super) struct Seat {
    state: Mutex<State>,
    left: Condvar,
}

struct State {
    taken: bool,
    standing: Option<Standing>,
}

/// The permit: the seat is left when this is dropped.
pub(super) struct Seated<'a> {
    seat: &'a Seat,
    /// How the file stands; `None` when this index never writes.
    pub(super) standing: Option<Standing>,
}

impl Seat {
    /// A free seat.
    pub(super) fn new(standing: Option<Standing>) -> Self {
        Self {
            state: Mutex::new(State {
                taken: false,
                standing,
            }),
            left: Condvar::new(),
        }
    }

    /// Waits until the seat is free and takes it.
    pub(super) fn take(&self) -> Seated<'_> {
        let mut state = self.state.lock();
        while state.taken {
            self.left.wait(&mut state);
        }
        state.taken = true;
        Seated {
            seat: self,
            standing: state.standing.take(),
        }
    }
}

impl Drop for Seated<'_> {
    fn drop(&mut self) {
        let mut state = self.seat.state.lock();
        state.taken = false;
        state.standing = self.standing.take();
        self.seat.left.notify_one();
    }
}
