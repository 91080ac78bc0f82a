//! Divides the memory budget, and decides when a commit may defer a merge. Open, commit and reset
//! call this.
//!
//! | share | use |
//! |---|---|
//! | 17/32 | a window of the file during a merge and the buckets made of it, up to 1/8 and 2 MiB;
//! |       | the rest: hot buckets, and the filters of all, up to half of that |
//! | 1/8 | pending entries (`active`) |
//! | 1/8 | entries that are being merged (`frozen`) |
//! | 3/32 | the same, sorted |
//! | 1/32 | the overflow table |
//! | rest | container numbers, tail of the file |
//!
//! Invariant: pure arithmetic.

use super::build::Site;
use super::delta::SLOT_BYTES;
use super::merge::GAP_BUCKETS;
use super::overflow::RECORD_BYTES;
use format::index::{BUCKET_BYTES, Geometry};
use media::Disk;
use std::sync::Arc;
use units::PoolId;

const MEMORY_BYTES_MIN: usize = 1 << 20;
/// Smallest and largest window that is read or written at once, bytes.
const WINDOW_BYTES_MIN: usize = 4 * BUCKET_BYTES;
const WINDOW_BYTES_MAX: usize = 1 << 20;
/// A merge pays if its reads and writes are fewer than those of so many opens without it.
const OPENS: u64 = 16;
/// Number of containers whose directories an open may always have to read: half a second on a disk
/// that seeks.
const DIRECTORIES_MAX: u64 = 64;
/// More may wait if there is less than one entry for so many buckets.
const SPARSE_SHARE: u64 = 16;

/// The budget, divided.
#[derive(Clone, Copy)]
pub(super) struct Shares {
    /// Slots of one delta.
    pub(super) delta_slots: usize,
    /// Maximum number of records of the overflow table.
    pub(super) overflow_records: usize,
    /// Largest tail that is read, bytes.
    pub(super) tail_bytes_max: u64,
    memory_bytes: usize,
}

impl Shares {
    /// Divides a budget.
    pub(super) fn of(memory_bytes: usize) -> Self {
        let memory_bytes = memory_bytes.max(MEMORY_BYTES_MIN);
        Self {
            delta_slots: memory_bytes / 8 / SLOT_BYTES,
            overflow_records: memory_bytes / 32 / RECORD_BYTES,
            tail_bytes_max: memory_bytes as u64 / 8,
            memory_bytes,
        }
    }

    /// Returns the shares of an index without a file: pending entries get most of the memory.
    pub(super) fn without_file(self) -> Self {
        Self {
            delta_slots: self.memory_bytes / 8 * 5 / SLOT_BYTES,
            ..self
        }
    }

    /// Returns the place of the index with the file's shares.
    pub(super) fn site(&self, disk: Arc<dyn Disk>, path: String, pool: PoolId) -> Site {
        // A window, and the buckets made of it.
        let of_windows = 2 * self.window_buckets() as usize * BUCKET_BYTES;
        Site {
            disk,
            path,
            pool,
            cache_bytes: (self.memory_bytes / 2 + self.memory_bytes / 32) - of_windows,
            window_buckets: self.window_buckets(),
        }
    }

    /// Returns true if a commit should leave this many pending entries, of so many containers, in
    /// memory. A merge reads and writes each window of buckets that has an entry; without it the
    /// next open reads one directory for each container, which has hundreds of entries. So a server
    /// whose checkpoints store a few containers each merges now and then, not each time. Entries
    /// that wait use at most half of their space, so that the next open need not merge at once.
    /// Entries of containers that are covered do not wait: no open would read their directories.
    pub(super) fn may_wait(&self, pending: usize, containers: u64, buckets: u64) -> bool {
        let window = self.window_buckets();
        let windows = match pending as u64 > buckets / (GAP_BUCKETS + 1) {
            true => buckets.div_ceil(window),
            false => pending as u64,
        };
        let is_sparse = (pending as u64) < buckets / SPARSE_SHARE;
        pending < self.delta_slots / 8 * 3
            && containers > 0
            && 2 * windows > OPENS * containers
            && (containers <= DIRECTORIES_MAX || is_sparse)
    }

    /// Returns the number of buckets that are read or written at once.
    fn window_buckets(&self) -> u64 {
        // With very little memory the hot buckets need it more.
        let share = if self.memory_bytes < 2 << 20 { 64 } else { 16 };
        let window = (self.memory_bytes / share).clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX);
        (window / BUCKET_BYTES) as u64
    }
}

/// Returns the size of a new file for this many entries; at least the smallest.
pub(super) fn first_size(entries: u64) -> Geometry {
    let mut log2 = Geometry::BASE_MIN;
    let full = |log2: u8| super::size::size_for(Geometry::first(log2), entries, 0);
    while log2 < Geometry::BASE_MAX && full(log2) != Geometry::first(log2) {
        log2 += 1;
    }
    Geometry::first(log2)
}
