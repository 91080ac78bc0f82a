//! What `latest` means: one rule for every command and for mounts.
//!
//! Invariant: the newest snapshot of files among those that are meant; where none of them is of files, the
//! newest of them. Snapshots are ordered by their time, then by their name.

use format::snapshot::{Snapshot, SnapshotKind};
use units::{SnapshotId, UnixNanos};

/// What makes a snapshot the latest: the greatest is.
pub type Rank = (bool, UnixNanos, SnapshotId);

/// Of one snapshot.
pub fn rank(snapshot: &Snapshot) -> Rank {
    let is_of_files = snapshot.kind == SnapshotKind::Tree;
    (is_of_files, snapshot.taken, snapshot.id)
}

/// The latest of these.
pub fn latest<'a>(of: impl Iterator<Item = &'a Snapshot>) -> Option<&'a Snapshot> {
    of.max_by_key(|snapshot| rank(snapshot))
}
