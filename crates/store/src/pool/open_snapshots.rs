//! Snapshots that clients of this process have open: NBD exports and open files of mounts. Front
//! ends, garbage collection and `status` call this.
//!
//! Invariant: a snapshot that [`Pool::open_snapshot`] returned stays readable until the returned
//! [`OpenSnapshot`] is dropped, even if it is forgotten and purged meanwhile. The table has
//! additional roots for garbage collection. A client first enters its root and then looks for the
//! snapshot in the newest catalog. Garbage collection first chooses the commit that it marks and
//! then reads the table. So either garbage collection sees the root, or the commit that it marks
//! names the snapshot.

use super::Pool;
use chunk_store::catalog::forgotten_tag_of;
use format::recipe::ObjectRoot;
use format::snapshot::{Snapshot, SnapshotKind, snapshot_key};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{SnapshotId, UnixNanos};

/// Kind of client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HolderKind {
    /// Connections to an NBD export.
    Nbd,
    /// Sessions of an iSCSI target.
    Iscsi,
    /// Open files and directories of a mount.
    Mount,
}

impl HolderKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Nbd, Self::Iscsi, Self::Mount];

    /// Returns its name in JSON and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nbd => "nbd",
            Self::Iscsi => "iscsi",
            Self::Mount => "mount",
        }
    }
}

/// The part of a snapshot's record that opening it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotRoot {
    /// Id of the snapshot.
    pub id: SnapshotId,
    /// When it was taken: part of its catalog key.
    pub taken: UnixNanos,
    /// Its contents.
    pub root: ObjectRoot,
    /// True when the root is a directory.
    pub is_tree: bool,
}

/// Key by which the catalog distinguishes snapshots.
pub(crate) type SnapshotName = (UnixNanos, SnapshotId);

impl SnapshotRoot {
    fn name(&self) -> SnapshotName {
        (self.taken, self.id)
    }
}

impl From<&Snapshot> for SnapshotRoot {
    fn from(snapshot: &Snapshot) -> Self {
        Self {
            id: snapshot.id,
            taken: snapshot.taken,
            root: snapshot.root,
            is_tree: snapshot.kind == SnapshotKind::Tree,
        }
    }
}

/// A client and the snapshot that it has open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotHolder {
    /// Id of the snapshot.
    pub snapshot: SnapshotId,
    /// Kind of client.
    pub kind: HolderKind,
    /// Name of the export, or path of the mount.
    pub name: String,
    /// When the first of its connections or files opened the snapshot.
    pub since: UnixNanos,
    /// Number of connections, or of open files and directories.
    pub opens: u64,
}

/// The table of one open pool.
#[derive(Default)]
pub(super) struct OpenSnapshots(Mutex<BTreeMap<SnapshotName, Entry>>);

struct Entry {
    root: ObjectRoot,
    is_tree: bool,
    /// The catalog has named the snapshot since this entry was made.
    is_proven: bool,
    holders: BTreeMap<HolderKey, Opens>,
}

type HolderKey = (HolderKind, String);

struct Opens {
    since: UnixNanos,
    count: u64,
}

/// Prevents the deletion of a snapshot's contents until it is dropped.
pub struct OpenSnapshot {
    table: Arc<OpenSnapshots>,
    snapshot: SnapshotName,
    holder: HolderKey,
}

impl OpenSnapshots {
    /// Adds one open. Returns true if the catalog is known to have named the snapshot since the
    /// entry exists.
    fn enter(
        self: &Arc<Self>,
        snapshot: &SnapshotRoot,
        holder: HolderKey,
        now: UnixNanos,
    ) -> (OpenSnapshot, bool) {
        let mut table = self.0.lock();
        let entry = table.entry(snapshot.name()).or_insert_with(|| Entry {
            root: snapshot.root,
            is_tree: snapshot.is_tree,
            is_proven: false,
            holders: BTreeMap::new(),
        });
        let opens = entry.holders.entry(holder.clone()).or_insert(Opens {
            since: now,
            count: 0,
        });
        opens.count += 1;
        let is_proven = entry.is_proven;
        let open = OpenSnapshot {
            table: Arc::clone(self),
            snapshot: snapshot.name(),
            holder,
        };
        (open, is_proven)
    }

    fn note_proven(&self, snapshot: SnapshotName) {
        if let Some(entry) = self.0.lock().get_mut(&snapshot) {
            entry.is_proven = true;
        }
    }
}

impl OpenSnapshot {
    /// Returns the snapshot that it protects.
    pub fn snapshot(&self) -> SnapshotId {
        self.snapshot.1
    }
}

impl Drop for OpenSnapshot {
    fn drop(&mut self) {
        let mut table = self.table.0.lock();
        let Some(entry) = table.get_mut(&self.snapshot) else {
            return;
        };
        if let Some(opens) = entry.holders.get_mut(&self.holder) {
            opens.count -= 1;
            if opens.count == 0 {
                entry.holders.remove(&self.holder);
            }
        }
        if entry.holders.is_empty() {
            table.remove(&self.snapshot);
        }
    }
}

impl Pool {
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
        if !self.is_writable() {
            return None;
        }
        let holder = (kind, name.to_owned());
        // The order matters: see the module's head.
        let (open, is_proven) = self.open_snapshots.enter(snapshot, holder, self.now());
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
    fn names(&self, snapshot: &SnapshotRoot) -> chunk_store::Result<bool> {
        let held = self.held_commit();
        let key = snapshot_key(snapshot.taken, snapshot.id);
        Ok(self.has_key(held.catalog(), &key)?
            || self.has_key(held.catalog(), &forgotten_tag_of(key))?)
    }

    /// Returns all roots that clients of this process have open. Garbage collection reads them
    /// after it has chosen the commit that it marks.
    pub(crate) fn open_roots(&self) -> BTreeMap<SnapshotName, (ObjectRoot, bool)> {
        let table = self.open_snapshots.0.lock();
        let roots = table.iter().map(|(name, e)| (*name, (e.root, e.is_tree)));
        roots.collect()
    }

    /// Lists the clients that have snapshots open in this process, by snapshot, oldest first. No
    /// I/O.
    pub fn snapshot_holders(&self) -> Vec<SnapshotHolder> {
        let table = self.open_snapshots.0.lock();
        let mut holders = Vec::new();
        for ((_, id), entry) in table.iter() {
            for ((kind, name), opens) in &entry.holders {
                holders.push(SnapshotHolder {
                    snapshot: *id,
                    kind: *kind,
                    name: name.clone(),
                    since: opens.since,
                    opens: opens.count,
                });
            }
        }
        holders
    }
}
