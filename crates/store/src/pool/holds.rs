//! Who may refer to what the catalog said some commits ago.
//!
//! Invariant: whoever reads names of the catalog and will refer to what they reach, or deduplicates,
//! holds the commit that was the newest when it began. What came into the trash by a later commit
//! stays as long. Volumes hold nothing: what they refer to and have not committed is asked of them.
//! Called by pool and sessions; the collector asks for the oldest.

use super::Pool;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use units::Generation;

/// The holds of one open pool.
#[derive(Default)]
pub(crate) struct Holds(Mutex<State>);

#[derive(Default)]
struct State {
    next: u64,
    held: BTreeMap<u64, Generation>,
}

/// Keeps what the catalog named when it was taken, until it is dropped.
pub struct Hold {
    holds: Arc<Holds>,
    number: u64,
}

impl Holds {
    pub fn take(self: &Arc<Self>, generation: Generation) -> Hold {
        let mut state = self.0.lock();
        let number = state.next;
        state.next += 1;
        state.held.insert(number, generation);
        Hold {
            holds: Arc::clone(self),
            number,
        }
    }

    /// The oldest commit that somebody holds; `None` when nobody holds any.
    pub fn oldest(&self) -> Option<Generation> {
        self.0.lock().held.values().min().copied()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.holds.0.lock().held.remove(&self.number);
    }
}

impl Pool {
    /// Holds the newest commit. Taken before its names are read.
    pub fn hold(&self) -> Hold {
        let head = self.head();
        self.holds.take(head.generation)
    }
}
