//! Cache of container directories. The chunk map calls this.
//!
//! Directories that only maintenance uses may fill the memory that clients do not need, and always
//! a quarter of the budget. So a task that visits all containers does not evict the directories of
//! clients.
//!
//! Invariant: the total is within the budget, except that at least one directory stays. The least
//! recently used one is evicted first.

use super::{LoadedDirectory, PASSING_SHARE};
use media::IoOrigin;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use units::ContainerId;

struct Loaded {
    directory: Arc<LoadedDirectory>,
    used: u64,
    /// Only maintenance has used it.
    passes: bool,
}

/// See the module's head.
pub(super) struct Directories {
    loaded: HashMap<ContainerId, Loaded>,
    /// Directories that a thread is reading now.
    pub loading: HashSet<ContainerId>,
    bytes: usize,
    passing_bytes: usize,
    bytes_max: usize,
    clock: u64,
}

impl Directories {
    pub fn new(bytes_max: usize) -> Self {
        Self {
            loaded: HashMap::new(),
            loading: HashSet::new(),
            bytes: 0,
            passing_bytes: 0,
            bytes_max,
            clock: 0,
        }
    }

    /// Returns the memory of all directories, bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn get(&mut self, id: ContainerId) -> Option<Arc<LoadedDirectory>> {
        let found = self.loaded.get_mut(&id)?;
        self.clock += 1;
        found.used = self.clock;
        if found.passes && !IoOrigin::current().origin.is_maintenance() {
            found.passes = false;
            self.passing_bytes -= found.directory.memory_bytes();
        }
        Some(Arc::clone(&found.directory))
    }

    pub fn keep(&mut self, directory: Arc<LoadedDirectory>) {
        self.clock += 1;
        let id = directory.container;
        self.remove(id);
        let bytes = directory.memory_bytes();
        self.bytes += bytes;
        let passes = IoOrigin::current().origin.is_maintenance();
        self.passing_bytes += if passes { bytes } else { 0 };
        let used = self.clock;
        let loaded = Loaded {
            directory,
            used,
            passes,
        };
        self.loaded.insert(id, loaded);
        while self.bytes > self.bytes_max && self.loaded.len() > 1 {
            let of_tasks = self.passing_bytes > self.bytes_max / PASSING_SHARE;
            // Evict from the group that exceeds its part, and never the new directory.
            let others = || self.loaded.iter().filter(|(other, _)| **other != id);
            let oldest = others()
                .filter(|(_, loaded)| loaded.passes == of_tasks)
                .min_by_key(|(_, loaded)| loaded.used)
                .or_else(|| others().min_by_key(|(_, loaded)| loaded.used))
                .map(|(id, _)| *id);
            match oldest {
                Some(oldest) => self.remove(oldest),
                None => return,
            }
        }
    }

    #[cfg(feature = "testing")]
    pub fn clear(&mut self) {
        *self = Self::new(self.bytes_max);
    }

    fn remove(&mut self, id: ContainerId) {
        if let Some(old) = self.loaded.remove(&id) {
            let bytes = old.directory.memory_bytes();
            self.bytes -= bytes;
            self.passing_bytes -= if old.passes { bytes } else { 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use format::container::{ContainerClass, Directory};
    use units::{Origin, WriterId};

    fn id(n: u64) -> ContainerId {
        ContainerId::new(WriterId(1), n)
    }

    fn directory(n: u64) -> Arc<LoadedDirectory> {
        let directory = Directory::default();
        Arc::new(LoadedDirectory::new(
            id(n),
            ContainerClass::Data,
            &directory,
        ))
    }

    #[test]
    fn those_of_clients_stay_while_maintenance_goes_through_all() {
        let each = directory(0).memory_bytes();
        let mut directories = Directories::new(8 * each);
        let goes_through =
            |directories: &mut Directories, origin, numbers: std::ops::Range<u64>| {
                let _task = IoOrigin::of(origin).begin();
                for n in numbers {
                    assert!(directories.get(id(n)).is_none());
                    directories.keep(directory(n));
                    assert!(directories.get(id(n)).is_some(), "it was read for somebody");
                }
            };
        goes_through(&mut directories, Origin::Scrub, 100..108);
        assert_eq!(directories.bytes(), 8 * each, "nobody else needs it");
        (1..=6).for_each(|n| directories.keep(directory(n)));
        goes_through(&mut directories, Origin::Collect, 200..300);
        goes_through(&mut directories, Origin::Replication, 300..400);
        assert!((1..=6).all(|n| directories.get(id(n)).is_some()));
        assert!(directories.get(id(398)).is_some(), "a client uses it now");
        goes_through(&mut directories, Origin::Collect, 400..500);
        assert!(directories.get(id(398)).is_some());
        assert_eq!(directories.bytes(), 8 * each);
        // Clients evict each other's directories, the oldest first.
        (10..30).for_each(|n| directories.keep(directory(n)));
        assert!(directories.get(id(1)).is_none() && directories.get(id(29)).is_some());
        assert!(directories.bytes() <= 8 * each);
    }
}
