//! Containers that the collector has given up: in the trash, or gone from there.
//!
//! Invariant: from the moment a container is in here, no new reference to it is made; who reads
//! looks everywhere else first. A container leaves only when the commit that was to give it up was
//! never begun. Filled by collector and pool; asked by the chunk map.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};
use units::ContainerId;

/// The set. See the module's head.
#[derive(Default)]
pub(crate) struct Retired {
    /// Nothing is in it: what every look-up of most pools needs to know.
    is_used: AtomicBool,
    times_added: AtomicU64,
    containers: RwLock<HashSet<ContainerId>>,
}

impl Retired {
    /// True when no container is retired.
    pub fn is_empty(&self) -> bool {
        !self.is_used.load(Ordering::Acquire)
    }

    /// True when this container is.
    pub fn holds(&self, container: ContainerId) -> bool {
        let containers = || {
            self.containers
                .read()
                .unwrap_or_else(PoisonError::into_inner)
        };
        !self.is_empty() && containers().contains(&container)
    }

    /// Retires containers. What sessions remember of chunks that they stored may lie there: the
    /// count makes them forget it.
    pub fn add(&self, which: impl IntoIterator<Item = ContainerId>) {
        let mut containers = self
            .containers
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        containers.extend(which);
        if containers.is_empty() {
            return;
        }
        self.is_used.store(true, Ordering::Release);
        self.times_added.fetch_add(1, Ordering::Release);
    }

    /// They stay: nothing was committed that gives them up.
    pub fn take_back(&self, which: &[ContainerId]) {
        let mut containers = self
            .containers
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        which.iter().for_each(|id| {
            containers.remove(id);
        });
        self.is_used
            .store(!containers.is_empty(), Ordering::Release);
    }

    /// Changes whenever one is retired.
    pub fn times_added(&self) -> u64 {
        self.times_added.load(Ordering::Acquire)
    }
}
