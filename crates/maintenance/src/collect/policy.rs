//! What the collector may do, and what it did.
//!
//! Invariant: nothing here reads or writes. Called by runs and by whoever begins them.

use store::{CopyCounts, Discarded, MarkCounts, MarkSummary, TrashedContainer};
use units::Generation;

/// Nanoseconds of a day.
const DAY_NS: i64 = 86_400 * 1_000_000_000;

/// What a collection may do.
#[derive(Clone, Copy, Debug)]
pub struct GcPolicy {
    /// Forgotten snapshots can be taken back for so long, nanoseconds.
    pub trash_period_ns: i64,
    /// Containers that were given up stay for so long, nanoseconds: for processes that read the
    /// pool and have opened it before.
    pub reader_period_ns: i64,
    /// Containers of which more is live, percent of their bytes, go after all others.
    pub live_percent_max: u64,
    /// What may stay unused in containers that somebody needs something of, percent of all that is live.
    pub unused_percent_max: u64,
    /// Live bytes that one run copies at most.
    pub copy_bytes_max: u64,
    /// Nothing is copied or given up for less unused bytes than this: a commit costs something too.
    pub gain_bytes_min: u64,
    /// Containers with fewer live bytes than so many percent of a full container are small.
    pub small_percent_max: u64,
    /// Small containers are merged once they hold together so many times what the largest of them
    /// holds. Less than 2: never.
    pub merge_ratio_min: u64,
    /// What an earlier run has seen in the trash of a time that was not here yet, when and up to which commit: its days
    /// count from then.
    pub ahead: Option<Discarded>,
    /// Only says what it would do.
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
            ahead: None,
            dry_run: false,
        }
    }
}

impl GcPolicy {
    /// With this trash period; containers stay no longer than that.
    pub fn with_trash_period(trash_period_ns: i64) -> Self {
        Self {
            trash_period_ns,
            reader_period_ns: trash_period_ns.min(DAY_NS),
            ..Self::default()
        }
    }
}

/// What a collection did, or would do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GcCounts {
    /// Forgotten snapshots that went for good.
    pub snapshots_purged: u64,
    /// What marking read.
    pub marked: MarkCounts,
    /// Live chunks and nodes.
    pub live_chunks: u64,
    /// Their plain bytes.
    pub live_bytes: u64,
    /// Memory of the bits that say what is live, bytes.
    pub bit_bytes: u64,
    /// Containers that were looked at.
    pub containers: u64,
    /// ... that were given up: they are in the trash now.
    pub containers_discarded: u64,
    /// Their stored bytes.
    pub discarded_bytes: u64,
    /// ... of which so many only because they were small.
    pub containers_merged: u64,
    /// ... that were to be given up and stay, because they cannot be read in full.
    pub containers_kept_back: u64,
    /// ... that stay because there is no room for a copy of what is needed of them.
    pub containers_without_room: u64,
    /// Chunks that were copied out of them, and out of the trash.
    pub chunks_copied: u64,
    /// Their plain bytes.
    pub copied_bytes: u64,
    /// ... of which so many were in memory.
    pub cached_bytes: u64,
    /// ... of which so many are packed as they were: nobody decompressed or fingerprinted them.
    pub as_stored_bytes: u64,
    /// Containers that were deleted from the trash.
    pub containers_deleted: u64,
    /// Their stored bytes.
    pub deleted_bytes: u64,
    /// Containers that stay in the trash for now.
    pub containers_in_trash: u64,
    /// Their stored bytes.
    pub trash_bytes: u64,
    /// Purged snapshots whose roots were marked, because clients of this process have them open.
    pub held_snapshots: u64,
    /// Containers of which only these snapshots need something.
    pub held_containers: u64,
    /// Plain bytes of chunks that only these snapshots need.
    pub held_bytes: u64,
    /// The newest commit that has brought something into the trash at a time that is not here yet: for the next run's
    /// policy.
    pub ahead_by: Option<Generation>,
}

impl GcCounts {
    /// Of this run and one after it: what both did, and how it was in the end.
    pub fn followed_by(self, next: Self) -> Self {
        Self {
            snapshots_purged: self.snapshots_purged + next.snapshots_purged,
            containers_discarded: self.containers_discarded + next.containers_discarded,
            discarded_bytes: self.discarded_bytes + next.discarded_bytes,
            containers_merged: self.containers_merged + next.containers_merged,
            containers_deleted: self.containers_deleted + next.containers_deleted,
            deleted_bytes: self.deleted_bytes + next.deleted_bytes,
            chunks_copied: self.chunks_copied + next.chunks_copied,
            copied_bytes: self.copied_bytes + next.copied_bytes,
            cached_bytes: self.cached_bytes + next.cached_bytes,
            as_stored_bytes: self.as_stored_bytes + next.as_stored_bytes,
            ..next
        }
    }

    /// The same, with what the mark has found.
    pub(super) fn with_mark(self, mark: &MarkSummary) -> Self {
        Self {
            marked: mark.read,
            live_chunks: mark.live_chunks,
            live_bytes: mark.live_bytes,
            bit_bytes: mark.bit_bytes,
            held_snapshots: mark.held.snapshots,
            held_containers: mark.held.containers,
            held_bytes: mark.held.bytes,
            ..self
        }
    }

    /// The same, and what a round has copied.
    pub(super) fn plus_copied(self, copied: &CopyCounts) -> Self {
        Self {
            chunks_copied: self.chunks_copied + copied.chunks,
            copied_bytes: self.copied_bytes + copied.bytes,
            cached_bytes: self.cached_bytes + copied.cached_bytes,
            as_stored_bytes: self.as_stored_bytes + copied.as_stored_bytes,
            containers_kept_back: self.containers_kept_back + copied.containers_kept_back,
            ..self
        }
    }

    /// These containers were deleted.
    pub(super) fn count_deleted(&mut self, deleted: &[TrashedContainer]) {
        self.containers_deleted += deleted.len() as u64;
        self.deleted_bytes += bytes_of(deleted);
    }

    /// The trash holds these, without those that a dry run would delete.
    pub(super) fn count_trash(&mut self, trash: &[TrashedContainer], without: &[TrashedContainer]) {
        self.containers_in_trash = (trash.len() - without.len()) as u64;
        self.trash_bytes = bytes_of(trash) - bytes_of(without);
    }
}

fn bytes_of(containers: &[TrashedContainer]) -> u64 {
    containers.iter().map(|t| t.entry.blob_bytes).sum()
}

/// Benefit over cost of collecting a container (Rosenblum and Ousterhout, SOSP'91), times a million:
/// `(1 - u) * age / (1 + u)`, `u` the part that would have to be read and written. `age` counts
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
