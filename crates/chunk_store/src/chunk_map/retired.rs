//! Retired containers: those that garbage collection moved to the trash, and those deleted from
//! there. Garbage collection and the pool fill it; the chunk map asks it.
//!
//! Invariant: once a container is in here, no new reference to it is made, and readers try all
//! other places first. A container leaves only if the commit that should retire it was never begun.

use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use units::ContainerId;

/// The set. See the module's head.
#[derive(Default)]
pub struct Retired {
    /// False while no container is retired: most lookups need only this.
    is_used: AtomicBool,
    times_added: AtomicU64,
    times_deleted: AtomicU64,
    /// Value true: the container is deleted.
    containers: RwLock<HashMap<ContainerId, bool>>,
}

impl Retired {
    /// Returns true if no container is retired.
    pub fn is_empty(&self) -> bool {
        !self.is_used.load(Ordering::Acquire)
    }

    /// Returns true if this container is retired.
    #[inline]
    pub fn holds(&self, container: ContainerId) -> bool {
        let containers = || self.containers.read();
        !self.is_empty() && containers().contains_key(&container)
    }

    /// Retires containers. The changed count makes sessions drop their claims, because claimed
    /// chunks may be in these containers.
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

    /// Takes containers back: the commit that should retire them did not happen.
    pub fn take_back(&self, which: &[ContainerId]) {
        let mut containers = self.containers.write();
        which.iter().for_each(|id| {
            containers.remove(id);
        });
        self.is_used
            .store(!containers.is_empty(), Ordering::Release);
    }

    /// Records that a container is about to be deleted. The caller does this before the deletion: a
    /// reader that misses a chunk and finds [`Self::times_deleted`] unchanged then knows that the
    /// chunk was not moved meanwhile.
    pub fn note_going(&self, container: ContainerId) {
        let mut containers = self.containers.write();
        containers.insert(container, true);
        self.is_used.store(true, Ordering::Release);
        self.times_deleted.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns true if this process has deleted the container. The index and directories in memory
    /// may still know it.
    pub fn is_deleted(&self, container: ContainerId) -> bool {
        let containers = || self.containers.read();
        !self.is_empty() && containers().get(&container) == Some(&true)
    }

    /// Returns a number that changes before each deletion.
    pub fn times_deleted(&self) -> u64 {
        self.times_deleted.load(Ordering::SeqCst)
    }

    /// Returns a number that changes whenever containers are retired.
    pub fn times_added(&self) -> u64 {
        self.times_added.load(Ordering::Acquire)
    }
}
