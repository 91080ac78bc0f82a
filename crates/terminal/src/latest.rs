//! The meaning of `latest`: one rule, which every command and mounts call.
//!
//! Invariant: `latest` is the newest snapshot of files among the candidates, or the newest of all
//! if none is of files. The newest is the last in the order of the pool's list, where snapshots
//! from the future come first: a clock that was ahead once does not decide what is restored.

use format::snapshot::{Snapshot, SnapshotKind};

/// Returns true if `latest` means `next` rather than `before`, which precedes it in the list.
pub fn supersedes(next: &Snapshot, before: &Snapshot) -> bool {
    let is_of_files = |snapshot: &Snapshot| snapshot.kind == SnapshotKind::Tree;
    is_of_files(next) || !is_of_files(before)
}

/// Returns the latest of these snapshots, which are in the order of the pool's list.
pub fn latest<'a>(of: impl Iterator<Item = &'a Snapshot>) -> Option<&'a Snapshot> {
    of.reduce(|before, next| match supersedes(next, before) {
        true => next,
        false => before,
    })
}
