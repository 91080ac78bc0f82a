//! The meaning of `latest`: one rule, which every command and mounts call.
//!
//! Invariant: `latest` is the newest snapshot of files among the candidates, or the newest of all
//! if none is of files. The order is by time, then by id.

use format::snapshot::{Snapshot, SnapshotKind};
use units::{SnapshotId, UnixNanos};

/// Rank of a snapshot. The greatest rank is the latest snapshot.
pub type Rank = (bool, UnixNanos, SnapshotId);

/// Returns the rank of a snapshot.
pub fn rank(snapshot: &Snapshot) -> Rank {
    let is_of_files = snapshot.kind == SnapshotKind::Tree;
    (is_of_files, snapshot.taken, snapshot.id)
}

/// Returns the latest of these snapshots.
pub fn latest<'a>(of: impl Iterator<Item = &'a Snapshot>) -> Option<&'a Snapshot> {
    of.max_by_key(|snapshot| rank(snapshot))
}
