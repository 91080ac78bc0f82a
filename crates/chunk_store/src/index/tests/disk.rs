//! A small disk in memory for the index's tests. It counts, fails on demand, and loses unsynced
//! writes (a seeded subset, torn at 512 bytes).

use super::Dice;
use media::{Barrier, Disk, DiskEntry, DiskFile, DiskLock, MediaError, MediaErrorKind};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

const SECTOR: usize = 512;

#[derive(Default)]
struct Content {
    bytes: Vec<u8>,
    durable: Vec<u8>,
    dirty: BTreeSet<usize>,
}

/// Requests to the disk.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) reads: AtomicU64,
    pub(super) writes: AtomicU64,
    pub(super) syncs: AtomicU64,
    /// Number of writes and syncs that still succeed; negative: all.
    pub(super) budget: AtomicI64,
    lies: AtomicBool,
}

#[derive(Default)]
struct Names {
    now: BTreeMap<String, Arc<Mutex<Content>>>,
    durable: BTreeMap<String, Arc<Mutex<Content>>>,
}

/// The disk.
pub(super) struct TestDisk {
    names: Mutex<Names>,
    pub(super) counts: Arc<Counts>,
}

struct TestFile {
    content: Arc<Mutex<Content>>,
    counts: Arc<Counts>,
    writable: bool,
}

fn error(kind: MediaErrorKind) -> MediaError {
    MediaError::plain(kind, "test", "file")
}

impl Counts {
    fn spend(&self) -> Result<(), MediaError> {
        match self.budget.load(Relaxed) {
            0 => return Err(error(MediaErrorKind::NoSpace)),
            n if n > 0 => drop(self.budget.fetch_sub(1, Relaxed)),
            _ => {}
        }
        Ok(())
    }
}

impl TestDisk {
    pub(super) fn new() -> Arc<Self> {
        Self::with(Names::default())
    }

    /// Makes syncs succeed without effect from now on: for the canary.
    pub(super) fn stop_syncing(&self) {
        self.counts.lies.store(true, Relaxed);
    }

    fn with(names: Names) -> Arc<Self> {
        let counts = Arc::new(Counts {
            budget: AtomicI64::new(-1),
            ..Counts::default()
        });
        Arc::new(Self {
            names: Mutex::new(names),
            counts,
        })
    }

    /// Gives access to the bytes of a file, to damage them.
    pub(super) fn bytes<R>(&self, path: &str, change: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let names = self.names.lock();
        let mut content = names.now.get(path).expect("a file").lock();
        change(&mut content.bytes)
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        self.names.lock().now.contains_key(path)
    }

    /// Returns another disk with the same files, all durable.
    pub(super) fn copy(&self) -> Arc<Self> {
        let mut names = Names::default();
        for (name, content) in &self.names.lock().now {
            let bytes = content.lock().bytes.clone();
            let content = Arc::new(Mutex::new(Content {
                durable: bytes.clone(),
                bytes,
                dirty: BTreeSet::new(),
            }));
            names.durable.insert(name.clone(), Arc::clone(&content));
            names.now.insert(name.clone(), content);
        }
        Self::with(names)
    }

    /// Returns the disk after a power loss now.
    pub(super) fn crash(&self, dice: &mut Dice) -> Arc<Self> {
        let names = self.names.lock();
        let chosen = if dice.below(2) == 0 {
            &names.now
        } else {
            &names.durable
        };
        let mut after = Names::default();
        for (name, content) in chosen {
            let content = content.lock();
            let longer = dice.below(2) == 0;
            let mut bytes = content.durable.clone();
            if longer {
                bytes.resize(content.bytes.len(), 0);
            }
            // Some disks write 512 bytes atomically, most write 4096.
            let unit = [1, 8][dice.below(2) as usize];
            let (mut current, mut arrived) = (usize::MAX, false);
            for sector in &content.dirty {
                let range = sector * SECTOR..content.bytes.len().min((sector + 1) * SECTOR);
                if sector / unit != current {
                    (current, arrived) = (sector / unit, dice.below(2) == 0);
                }
                if arrived && range.end <= bytes.len() && !range.is_empty() {
                    bytes[range.clone()].copy_from_slice(&content.bytes[range]);
                }
            }
            let (durable, dirty) = (bytes.clone(), BTreeSet::new());
            let content = Arc::new(Mutex::new(Content {
                bytes,
                durable,
                dirty,
            }));
            after.durable.insert(name.clone(), Arc::clone(&content));
            after.now.insert(name.clone(), content);
        }
        Self::with(after)
    }
}

impl Disk for TestDisk {
    fn open(&self, path: &str, create: bool) -> Result<Arc<dyn DiskFile>, MediaError> {
        let mut names = self.names.lock();
        if create {
            if !path.starts_with("cache/") || !names.now.contains_key("cache") {
                return Err(error(MediaErrorKind::NotFound));
            }
            self.counts.spend()?;
            names.now.insert(path.to_owned(), Arc::default());
        }
        let content = names
            .now
            .get(path)
            .ok_or_else(|| error(MediaErrorKind::NotFound))?;
        Ok(Arc::new(TestFile {
            content: Arc::clone(content),
            counts: Arc::clone(&self.counts),
            writable: true,
        }))
    }

    fn create_new(&self, _: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        Err(error(MediaErrorKind::Io))
    }

    fn open_read(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        let names = self.names.lock();
        let content = names
            .now
            .get(path)
            .ok_or_else(|| error(MediaErrorKind::NotFound))?;
        Ok(Arc::new(TestFile {
            content: Arc::clone(content),
            counts: Arc::clone(&self.counts),
            writable: false,
        }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), MediaError> {
        self.counts.spend()?;
        let mut names = self.names.lock();
        let moved = names
            .now
            .remove(from)
            .ok_or_else(|| error(MediaErrorKind::NotFound))?;
        names.now.insert(to.to_owned(), moved);
        Ok(())
    }

    fn rename_new(&self, from: &str, to: &str) -> Result<(), MediaError> {
        self.rename(from, to)
    }

    fn remove(&self, path: &str) -> Result<(), MediaError> {
        let removed = self.names.lock().now.remove(path);
        removed
            .map(drop)
            .ok_or_else(|| error(MediaErrorKind::NotFound))
    }

    fn list(&self, _: &str) -> Result<Vec<DiskEntry>, MediaError> {
        Err(error(MediaErrorKind::Io))
    }

    fn make_dir(&self, dir: &str) -> Result<bool, MediaError> {
        let mut names = self.names.lock();
        names.durable.insert(dir.to_owned(), Arc::default());
        Ok(names.now.insert(dir.to_owned(), Arc::default()).is_none())
    }

    fn sync_dir(&self, _: &str, point: Barrier) -> Result<(), MediaError> {
        assert_eq!(point, Barrier::IndexBeforeClean);
        self.counts.syncs.fetch_add(1, Relaxed);
        self.counts.spend()?;
        if !self.counts.lies.load(Relaxed) {
            let mut names = self.names.lock();
            names.durable = names.now.clone();
        }
        Ok(())
    }

    fn lock(&self, _: &str) -> Result<DiskLock, MediaError> {
        Err(error(MediaErrorKind::Io))
    }
}

impl DiskFile for TestFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        self.counts.reads.fetch_add(1, Relaxed);
        let content = self.content.lock();
        let start = offset as usize;
        let from = content.bytes.get(start..start + into.len());
        into.copy_from_slice(from.ok_or_else(|| error(MediaErrorKind::Io))?);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        assert!(self.writable, "a reader writes");
        self.counts.writes.fetch_add(1, Relaxed);
        self.counts.spend()?;
        if data.is_empty() {
            return Ok(());
        }
        let mut content = self.content.lock();
        let (start, end) = (offset as usize, offset as usize + data.len());
        let len = content.bytes.len().max(end);
        content.bytes.resize(len, 0);
        content.bytes[start..end].copy_from_slice(data);
        content.dirty.extend(start / SECTOR..end.div_ceil(SECTOR));
        Ok(())
    }

    fn len(&self) -> Result<u64, MediaError> {
        Ok(self.content.lock().bytes.len() as u64)
    }

    fn set_len(&self, len: u64) -> Result<(), MediaError> {
        self.content.lock().bytes.resize(len as usize, 0);
        Ok(())
    }

    fn sync(&self, point: Barrier) -> Result<(), MediaError> {
        assert!(matches!(
            point,
            Barrier::IndexBeforeClean | Barrier::IndexCopyBeforeStamp
        ));
        self.counts.syncs.fetch_add(1, Relaxed);
        self.counts.spend()?;
        if !self.counts.lies.load(Relaxed) {
            let mut content = self.content.lock();
            let content = &mut *content;
            // Copy only what changed: files of the larger tests have many MiB.
            content.durable.resize(content.bytes.len(), 0);
            for sector in std::mem::take(&mut content.dirty) {
                let range = sector * SECTOR..content.bytes.len().min((sector + 1) * SECTOR);
                content.durable[range.clone()].copy_from_slice(&content.bytes[range]);
            }
        }
        Ok(())
    }
}
