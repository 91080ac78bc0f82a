//! Containers that the collector has given up: in the trash, or gone from there.
//!
//! Invariant: from the moment a container is in here, no new reference to it is made; who reads
//! looks everywhere else first. A container leaves only when the commit that was to give it up was
//! never begun. Filled by collector and pool; asked by the chunk map.

use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use units::ContainerId;

/// The set. See the module's head.
#[derive(Default)]
pub struct Retired {
    /// Nothing is in it: what every look-up of most pools needs to know.
    is_used: AtomicBool,
    times_added: AtomicU64,
    times_gone: AtomicU64,
    /// True: it is gone.
    containers: RwLock<HashMap<ContainerId, bool>>,
}

impl Retired {
    /// True when no container is retired.
    pub fn is_empty(&self) -> bool {
        !self.is_used.load(Ordering::Acquire)
    }

    /// True when this container is.
    #[inline]
    pub fn holds(&self, container: ContainerId) -> bool {
        let containers = || self.containers.read();
        !self.is_empty() && containers().contains_key(&container)
    }

    /// Retires containers. What sessions remember of chunks that they stored may lie there: the
    /// count makes them forget it.
    pub fn add(&self, which: impl IntoIterator<Item = ContainerId>) {
        let mut containers = self.containers.write();
        for container in which {
            containers.entry(container).or_insert(false);
        }
        if containers.is_empty() {
            return;
        }
        self.is_used.store(true, Ordering::Release);
        self.times_added.fetch_add(1, Ordering::Release);
    }

    /// They stay: nothing was committed that gives them up.
    pub fn take_back(&self, which: &[ContainerId]) {
        let mut containers = self.containers.write();
        which.iter().for_each(|id| {
            containers.remove(id);
        });
        self.is_used
            .store(!containers.is_empty(), Ordering::Release);
    }

    /// One goes now, for good. Said before it does: whoever misses a chunk and finds
    /// [`Self::times_gone`] as it was before it looked has not missed it because it moved meanwhile.
    pub fn note_going(&self, container: ContainerId) {
        let mut containers = self.containers.write();
        containers.insert(container, true);
        self.is_used.store(true, Ordering::Release);
        self.times_gone.fetch_add(1, Ordering::SeqCst);
    }

    /// True when this container went while this process ran: the index and directories in memory may
    /// still know it, and nothing is there any more.
    pub fn is_gone(&self, container: ContainerId) -> bool {
        let containers = || self.containers.read();
        !self.is_empty() && containers().get(&container) == Some(&true)
    }

    /// Changes before one goes.
    pub fn times_gone(&self) -> u64 {
        self.times_gone.load(Ordering::SeqCst)
    }

    /// Changes whenever one is retired.
    pub fn times_added(&self) -> u64 {
        self.times_added.load(Ordering::Acquire)
    }
}
