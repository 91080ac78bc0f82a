//! Limits of a garbage collection run, and its totals. Runs and their callers use them.
//!
//! Invariant: no I/O.

use crate::counts;
use store::{CopyCounts, Discarded, MarkSummary, TrashedContainer};
use units::Generation;

/// Nanoseconds of a day.
const DAY_NS: i64 = 86_400 * 1_000_000_000;

/// Limits of a run.
#[derive(Clone, Copy, Debug)]
pub struct GcPolicy {
    /// Time for which a forgotten snapshot can be restored from the trash, nanoseconds.
    pub trash_period_ns: i64,
    /// Time for which containers stay in the trash, nanoseconds: for processes that opened the pool
    /// before.
    pub reader_period_ns: i64,
    /// Containers with a higher percentage of live bytes are collected after all others.
    pub live_percent_max: u64,
    /// Garbage that may stay in partly live containers, percent of all live bytes.
    pub unused_percent_max: u64,
    /// Maximum live bytes that one run copies.
    pub copy_bytes_max: u64,
    /// Minimum garbage, bytes, for which a run copies and commits: a commit costs something too.
    pub gain_bytes_min: u64,
    /// Containers with fewer live bytes than this percentage of a full container are small.
    pub small_percent_max: u64,
    /// Small containers are merged once they together have this many times the bytes of the largest
    /// of them. Less than 2: never.
    pub merge_ratio_min: u64,
    /// Copies are ordered by owner if a run copies at least this percentage of a full container.
    /// `None`: never.
    pub by_owner_percent_min: Option<u64>,
    /// Trash entries with future times that an earlier run has seen: when, and up to which commit.
    /// Their trash period counts from then.
    pub ahead: Option<Discarded>,
    /// Only reports what it would do.
    pub dry_run: bool,
}

impl Default for GcPolicy {
    fn default() -> Self {
        Self {
            trash_period_ns: 7 * DAY_NS,
            reader_period_ns: DAY_NS,
            live_percent_max: 80,
            unused_percent_max: 5,
            copy_bytes_max: u64::MAX,
            gain_bytes_min: 0,
            small_percent_max: 12,
            merge_ratio_min: 16,
            by_owner_percent_min: Some(100),
            ahead: None,
            dry_run: false,
        }
    }
}

impl GcPolicy {
    /// Options with this trash period. Containers stay no longer than that.
    pub fn with_trash_period(trash_period_ns: i64) -> Self {
        Self {
            trash_period_ns,
            reader_period_ns: trash_period_ns.min(DAY_NS),
            ..Self::default()
        }
    }
}

counts! {
    /// Totals of a run, or of a dry run. The names are those of the JSON that users see.
    pub struct GcCounts {
        /// Forgotten snapshots that were purged.
        pub snapshots_purged: u64,
        /// Containers that were examined.
        pub containers: u64,
        /// Recipe nodes that the mark read, each once.
        pub nodes_read: u64,
        /// Directories that the mark read, each once.
        pub directories_read: u64,
        /// Live chunks and nodes.
        pub live_chunks: u64,
        /// Plain bytes of live chunks and nodes.
        pub live_bytes: u64,
        /// Stored bytes of live chunks and nodes, estimated for each container by chunk lengths.
        pub live_stored_bytes: u64,
        /// Memory of the mark bits, bytes.
        pub mark_memory_bytes: u64,
        /// Plain bytes of the copied chunks.
        pub copied_bytes: u64,
        /// Copied bytes that were in memory.
        pub cached_bytes: u64,
        /// Copied bytes of regions that were packed as stored, without decompression or
        /// fingerprinting.
        pub as_stored_bytes: u64,
        /// Chunks copied out of chosen containers, and out of the trash.
        pub copied_chunks: u64,
        /// Containers that were moved to the trash.
        pub discarded_containers: u64,
        /// Stored bytes of the containers that were moved to the trash.
        pub discarded_bytes: u64,
        /// Containers moved to the trash only because they were small.
        pub merged_containers: u64,
        /// Containers deleted from the trash.
        pub deleted_containers: u64,
        /// Stored bytes of the deleted containers.
        pub deleted_bytes: u64,
        /// Chosen containers that stay, because they cannot be read in full.
        pub kept_back_containers: u64,
        /// Chosen containers that stay, because their copies do not fit into free space.
        pub containers_without_room: u64,
        /// Containers that stay in the trash for now.
        pub trash_containers: u64,
        /// Stored bytes of the containers in the trash.
        pub trash_bytes: u64,
        /// Purged snapshots whose roots were marked, because clients of this process have them
        /// open.
        pub held_snapshots: u64,
        /// Containers that only these snapshots need.
        pub held_containers: u64,
        /// Plain bytes of chunks that only these snapshots need.
        pub held_bytes: u64,
        hidden:
        /// References that the mark followed.
        pub references_followed: u64,
        /// Memory for the owners of chunks to copy, bytes; 0: copies were not ordered by owner.
        pub owner_bytes: u64,
        /// Newest commit that moved something to the trash at a time that is in the future now: for
        /// the policy of the next run.
        pub ahead_by: Option<Generation>,
    }
}

impl GcCounts {
    /// Combines this run and the next one: sums of the work, and the final state.
    pub fn followed_by(self, next: Self) -> Self {
        Self {
            snapshots_purged: self.snapshots_purged + next.snapshots_purged,
            discarded_containers: self.discarded_containers + next.discarded_containers,
            discarded_bytes: self.discarded_bytes + next.discarded_bytes,
            merged_containers: self.merged_containers + next.merged_containers,
            deleted_containers: self.deleted_containers + next.deleted_containers,
            deleted_bytes: self.deleted_bytes + next.deleted_bytes,
            copied_chunks: self.copied_chunks + next.copied_chunks,
            copied_bytes: self.copied_bytes + next.copied_bytes,
            cached_bytes: self.cached_bytes + next.cached_bytes,
            as_stored_bytes: self.as_stored_bytes + next.as_stored_bytes,
            ..next
        }
    }

    /// Adds the results of the mark.
    pub(super) fn with_mark(self, mark: &MarkSummary) -> Self {
        Self {
            nodes_read: mark.read.nodes,
            directories_read: mark.read.directories,
            references_followed: mark.read.references,
            live_chunks: mark.live_chunks,
            live_bytes: mark.live_bytes,
            mark_memory_bytes: mark.bit_bytes,
            held_snapshots: mark.held.snapshots,
            held_containers: mark.held.containers,
            held_bytes: mark.held.bytes,
            ..self
        }
    }

    /// Adds the copies of a round.
    pub(super) fn plus_copied(self, copied: &CopyCounts) -> Self {
        Self {
            copied_chunks: self.copied_chunks + copied.chunks,
            copied_bytes: self.copied_bytes + copied.bytes,
            cached_bytes: self.cached_bytes + copied.cached_bytes,
            as_stored_bytes: self.as_stored_bytes + copied.as_stored_bytes,
            kept_back_containers: self.kept_back_containers + copied.containers_kept_back,
            ..self
        }
    }

    /// Counts deleted containers.
    pub(super) fn count_deleted(&mut self, deleted: &[TrashedContainer]) {
        self.deleted_containers += deleted.len() as u64;
        self.deleted_bytes += bytes_of(deleted);
    }

    /// Counts the containers in the trash, without those that a dry run would delete.
    pub(super) fn count_trash(&mut self, trash: &[TrashedContainer], without: &[TrashedContainer]) {
        self.trash_containers = (trash.len() - without.len()) as u64;
        self.trash_bytes = bytes_of(trash) - bytes_of(without);
    }
}

fn bytes_of(containers: &[TrashedContainer]) -> u64 {
    containers.iter().map(|t| t.entry.blob_bytes).sum()
}

/// Benefit over cost of collecting a container (Rosenblum and Ousterhout, SOSP'91), times a
/// million: `(1 - u) * age / (1 + u)`, where `u` is the fraction to read and write. `age` counts
/// commits.
pub(super) fn benefit(to_copy_bytes: u64, plain_bytes: u64, age: u64) -> u128 {
    let capacity = u128::from(plain_bytes.max(1));
    let used = u128::from(to_copy_bytes).min(capacity);
    (capacity - used) * u128::from(age.max(1)) * 1_000_000 / (capacity + used)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_and_old_come_first() {
        assert!(benefit(0, 100, 5) > benefit(10, 100, 5));
        assert!(benefit(10, 100, 50) > benefit(10, 100, 5));
        assert!(benefit(90, 100, 100) < benefit(20, 100, 10));
        assert_eq!(benefit(100, 100, 9), 0);
        assert_eq!(benefit(500, 100, 9), 0);
        assert_eq!(benefit(0, 0, 0), 1_000_000);
    }
}
