//! Tracks marks of a volume in memory. [`super::MemoryVolume`] calls this.
//!
//! Invariant: epochs count marks. A page has changed since a mark if its last change was in an
//! epoch that began after that mark. The epoch advances only while all shards of the volume are
//! locked.

use parking_lot::RwLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A marked state.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    /// The last epoch before it.
    pub(super) epoch: u64,
    /// The volume's size then.
    pub(super) size_bytes: u64,
}

/// The marks of one volume, oldest first.
#[derive(Default)]
pub(super) struct Marks {
    epoch: AtomicU64,
    list: RwLock<Vec<(String, Mark)>>,
}

impl Marks {
    /// Returns the epoch that stamps current changes.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Relaxed)
    }

    pub(super) fn add(&self, name: &str, size_bytes: u64) {
        let mut list = self.list.write();
        let epoch = self.epoch.fetch_add(1, Relaxed);
        list.retain(|(other, _)| other != name);
        list.push((name.to_owned(), Mark { epoch, size_bytes }));
    }

    pub(super) fn names(&self, count_max: usize) -> Vec<String> {
        let list = self.list.read();
        let names = list.iter().rev().take(count_max);
        names.map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn since(&self, name: &str) -> Option<Mark> {
        let list = self.list.read();
        let found = list.iter().find(|(other, _)| other == name);
        found.map(|(_, mark)| *mark)
    }
}
