//! Holds: which past generations are still in use in this process. The pool and its sessions take
//! them; garbage collection asks for the oldest.
//!
//! Invariant: a session that deduplicates, and a caller that reads the catalog, or will use what
//! its names reach, holds the generation that was the newest when it began. What a later commit
//! trashed stays until then, so nodes of a replaced catalog are not deleted under a reader. Volumes
//! take no hold: garbage collection asks them what they need.

use format::root::RootRecord;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{Fingerprint, Generation};

/// The holds of one open pool.
#[derive(Default)]
pub(crate) struct Holds(Mutex<HoldMap>);

#[derive(Default)]
struct HoldMap {
    next: u64,
    held: BTreeMap<u64, Generation>,
}

/// Prevents deletion of everything that the catalog named when it was taken, until it is dropped.
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

    /// Returns the oldest held generation, or `None` without holds.
    pub fn oldest(&self) -> Option<Generation> {
        self.0.lock().held.values().min().copied()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.holds.0.lock().held.remove(&self.number);
    }
}

/// The newest commit when it was taken. Its catalog can be read until this is dropped.
pub(crate) struct HeldCommit {
    pub record: RootRecord,
    pub _hold: Hold,
}

impl HeldCommit {
    /// Returns the root of its catalog.
    pub fn catalog(&self) -> Option<Fingerprint> {
        self.record.catalog
    }
}
