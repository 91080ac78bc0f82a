//! Moments of a volume in memory.
//!
//! Invariant: epochs count marks; a page that was last changed in an epoch that began after a mark
//! is changed since that mark. The epoch moves only while all of the volume's shards are locked.
//! [`super::MemoryVolume`] calls this.

use parking_lot::RwLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A moment.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    /// The last epoch before it.
    pub(super) epoch: u64,
    /// The volume's size then.
    pub(super) size_bytes: u64,
}

/// The moments of one volume, oldest first.
#[derive(Default)]
pub(super) struct Marks {
    epoch: AtomicU64,
    list: RwLock<Vec<(String, Mark)>>,
}

impl Marks {
    /// What changes now is stamped with.
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
