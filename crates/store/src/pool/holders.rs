//! Users of a pool that keep data from deletion: clients of this process with open snapshots, and
//! processes that read without the lock. Front ends, garbage collection and `status` ask it.
//!
//! Invariant: see `open_snapshots` and `readers`.

use super::commits::Commits;
use super::open_snapshots::{
    HolderKind, OpenSnapshot, OpenSnapshots, SnapshotHolder, SnapshotName, SnapshotRoot,
};
use super::readers::{HeldBack, ReaderSeen, ReadersHold, living};
use super::storage::PoolStorage;
use chunk_store::Result;
use chunk_store::catalog::forgotten_tag_of;
use format::recipe::ObjectRoot;
use format::snapshot::snapshot_key;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// See the module's head.
pub struct Holders {
    storage: Arc<PoolStorage>,
    commits: Arc<Commits>,
    open_snapshots: Arc<OpenSnapshots>,
    /// The hold of a process that reads, as other processes see it.
    _reading: Option<ReadersHold>,
    unheld: Option<String>,
    /// Locked while one thread tries the locks of readers.
    probing: Mutex<()>,
}

impl Holders {
    /// `unheld` is the cause if this process reads and has no hold.
    pub(super) fn new(
        storage: &Arc<PoolStorage>,
        commits: &Arc<Commits>,
        reading: Option<ReadersHold>,
        unheld: Option<String>,
    ) -> Self {
        Self {
            storage: Arc::clone(storage),
            commits: Arc::clone(commits),
            open_snapshots: Arc::default(),
            _reading: reading,
            unheld,
            probing: Mutex::default(),
        }
    }

    /// Protects everything that a snapshot reaches until the result is dropped, for a client called
    /// `name`. Returns `None` if that is impossible: the snapshot was purged, or this process has
    /// the pool open for reading only (the process then holds what it reads, see `readers`). If
    /// damage hides the snapshot's catalog entry, everything that still exists is protected.
    pub fn open_snapshot(
        &self,
        snapshot: &SnapshotRoot,
        kind: HolderKind,
        name: &str,
    ) -> Option<OpenSnapshot> {
        if !self.storage.is_writable() {
            return None;
        }
        let holder = (kind, name.to_owned());
        // The order matters: see the head of `open_snapshots`.
        let (open, is_proven) =
            self.open_snapshots
                .enter(snapshot, holder, self.storage.media.clock.now());
        if is_proven {
            return Some(open);
        }
        match self.names(snapshot) {
            Ok(true) => {
                self.open_snapshots.note_proven(snapshot.name());
                Some(open)
            }
            Ok(false) => None,
            // Garbage collection that meets the same damage deletes nothing.
            Err(_) => Some(open),
        }
    }

    /// Returns true if the newest catalog lists the snapshot or has it in the trash.
    fn names(&self, snapshot: &SnapshotRoot) -> Result<bool> {
        let held = self.commits.held();
        let key = snapshot_key(snapshot.taken, snapshot.id);
        let is_there = |key: &[u8]| self.storage.has_key(held.catalog(), key);
        Ok(is_there(&key)? || is_there(&forgotten_tag_of(key.clone()))?)
    }

    /// Returns all roots that clients of this process have open. Garbage collection reads them
    /// after it has chosen the commit that it marks.
    pub(crate) fn open_roots(&self) -> BTreeMap<SnapshotName, (ObjectRoot, bool)> {
        self.open_snapshots.roots()
    }

    /// Lists the clients that have snapshots open in this process, by snapshot, oldest first. No
    /// I/O.
    pub fn open_snapshots(&self) -> Vec<SnapshotHolder> {
        self.open_snapshots.holders()
    }

    /// Returns why this reading process has no hold. `None` if it has one, or has the pool's lock.
    pub fn unheld(&self) -> Option<&str> {
        self.unheld.as_deref()
    }

    /// Returns the readers in other processes, and those of this one that read past its own pool.
    /// Empty unless this process has the pool's lock: other processes may not ask.
    pub fn readers(&self) -> Vec<ReaderSeen> {
        if !self.storage.is_writable() {
            return Vec::new();
        }
        let _alone = self.probing.lock();
        living(&*self.storage.media.disk, self.storage.id())
    }

    /// Returns the readers that keep anything in the trash, expired or not.
    pub fn held_back(&self) -> Result<Vec<HeldBack>> {
        let readers = self.readers();
        if readers.is_empty() {
            return Ok(Vec::new());
        }
        let held = self.commits.held();
        let (forgotten, containers) = self.storage.trash_of(held.catalog())?;
        let held = readers.into_iter().map(|reader| {
            let kept = containers.iter().filter(|c| c.since.by > reader.generation);
            let snapshots = forgotten.iter().filter(|f| f.since.by > reader.generation);
            HeldBack {
                containers: kept.clone().count() as u64,
                bytes: kept.map(|c| c.entry.blob_bytes).sum(),
                snapshots: snapshots.count() as u64,
                reader,
            }
        });
        Ok(held.filter(|h| h.containers + h.snapshots > 0).collect())
    }
}
