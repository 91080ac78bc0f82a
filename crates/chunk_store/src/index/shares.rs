//! Divides the memory budget, and decides when a commit may defer a merge. Open, commit and reset
//! call this.
//!
//! | share | use |
//! |---|---|
//! | 1/2 | hot buckets, and the filters of all: up to half of it |
//! | 1/8 | pending entries (`active`) |
//! | 1/8 | entries that are being merged (`frozen`) |
//! | 3/32 | the same, sorted |
//! | 1/32 | windows of the file during a merge, and the buckets made of them |
//! | 1/32 | the overflow table |
//! | rest | container numbers, tail of the file |
//!
//! Invariant: pure arithmetic.

use super::build::Site;
use super::delta::SLOT_BYTES;
use super::overflow::RECORD_BYTES;
use format::index::{BUCKET_BYTES, Geometry};
use media::Disk;
use std::sync::Arc;
use units::PoolId;

const MEMORY_BYTES_MIN: usize = 1 << 20;
/// Smallest and largest window that is read or written at once, bytes.
const WINDOW_BYTES_MIN: usize = 4 * BUCKET_BYTES;
const WINDOW_BYTES_MAX: usize = 1 << 20;
/// Number of buckets that a commit may always touch: a few seconds on a disk that seeks,
/// milliseconds otherwise.
const TOUCHED_MAX: usize = 4096;
/// A commit that touches fewer than one bucket in this many may wait.
const TOUCHED_SHARE: u64 = 16;

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
        let window = (self.memory_bytes / 64).clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX);
        Site {
            disk,
            path,
            pool,
            cache_bytes: self.memory_bytes / 2,
            window_buckets: (window / BUCKET_BYTES) as u64,
        }
    }

    /// Returns true if a commit should leave this many pending entries in memory. Sparse entries
    /// touch nearly one bucket each in a merge: a read and a write of the device. Without the merge
    /// the next open reads one directory for each container, which has hundreds of entries. So
    /// entries wait if they are more than [`TOUCHED_MAX`] but fewer than one for 16 buckets. They
    /// must also use at most half of the space for pending entries, so that the next open need not
    /// merge them at once.
    pub(super) fn may_wait(&self, pending: usize, buckets: u64) -> bool {
        pending > TOUCHED_MAX
            && (pending as u64) < buckets / TOUCHED_SHARE
            && pending < self.delta_slots / 8 * 3
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
