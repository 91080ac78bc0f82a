//! Snapshots that clients of this process have open: NBD exports and open files of mounts. Front
//! ends, garbage collection and `status` call this.
//!
//! Invariant: a snapshot that `Holders::open_snapshot` returned stays readable until the returned
//! [`OpenSnapshot`] is dropped, even if it is forgotten and purged meanwhile. The table has
//! additional roots for garbage collection. A client first enters its root and then looks for the
//! snapshot in the newest catalog. Garbage collection first chooses the commit that it marks and
//! then reads the table. So either garbage collection sees the root, or the commit that it marks
//! names the snapshot.

use format::recipe::ObjectRoot;
use format::snapshot::{Snapshot, SnapshotKind};
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
    pub(super) fn name(&self) -> SnapshotName {
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
    pub fn enter(
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

    /// Returns all roots that clients of this process have open. Garbage collection reads them
    /// after it has chosen the commit that it marks.
    pub fn roots(&self) -> BTreeMap<SnapshotName, (ObjectRoot, bool)> {
        let table = self.0.lock();
        let roots = table.iter().map(|(name, e)| (*name, (e.root, e.is_tree)));
        roots.collect()
    }

    /// Lists the clients that have snapshots open in this process, by snapshot, oldest first. No
    /// I/O.
    pub fn holders(&self) -> Vec<SnapshotHolder> {
        let table = self.0.lock();
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

    pub fn note_proven(&self, snapshot: SnapshotName) {
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
