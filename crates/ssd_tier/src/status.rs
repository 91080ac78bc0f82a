//! Counts of the tier, and how it is. The server's metrics and `status` read this.
//!
//! Invariant: counts are not of one instant; each only grows.

use crate::class::CacheClass;
use std::sync::atomic::{AtomicU64, Ordering};

/// Whether the tier is in use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TierState {
    /// Not opened yet.
    Closed,
    /// Blocks of earlier uses are being read; those that were read are served.
    Opening {
        /// Slots looked at.
        done: u32,
        /// All slots.
        total: u32,
    },
    /// In use.
    Ready,
    /// Read, and not written for a while.
    NotWritten {
        /// Why.
        reason: String,
    },
    /// Not used for a while.
    Off {
        /// Why.
        reason: String,
    },
}

/// Counts of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassStatus {
    /// The class.
    pub class: CacheClass,
    /// Chunks read from its blocks.
    pub hits: u64,
    /// Bytes of blocks written.
    pub bytes_written: u64,
}

/// How the tier is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// Whether it is in use.
    pub state: TierState,
    /// Chunks found, those that waited to be written included.
    pub hits: u64,
    /// Chunks found that waited to be written.
    pub hits_staged: u64,
    /// Chunks not found, by the number of their kind.
    pub misses: [u64; 3],
    /// Classes with any count.
    pub classes: Vec<ClassStatus>,
    /// Bytes written to the device.
    pub bytes_written: u64,
    /// Memory of the chunks that wait to be written, bytes.
    pub staged_bytes: u64,
    /// Evicted blocks.
    pub evictions: u64,
    /// Chunks that were offered and had no room, or whose class may not displace others.
    pub refused: u64,
    /// Failed reads of the device.
    pub failed_reads: u64,
    /// Failed writes to the device.
    pub failed_writes: u64,
    /// Chunks read that were not what was written.
    pub damaged: u64,
    /// Slots with a block, and all slots.
    pub slots_full: u64,
    /// All slots.
    pub slots: u64,
    /// Chunks in the index; a part of them may be evicted already.
    pub chunks: u64,
    /// Memory, bytes: an upper limit, taken when the tier was made.
    pub memory_bytes: u64,
}

/// The counters behind it.
pub(crate) struct Counters {
    classes: Vec<(AtomicU64, AtomicU64)>,
    pub hits_staged: AtomicU64,
    pub evictions: AtomicU64,
    pub refused: AtomicU64,
    pub failed_reads: AtomicU64,
    pub failed_writes: AtomicU64,
    pub damaged: AtomicU64,
}

impl Default for Counters {
    fn default() -> Self {
        let zero = AtomicU64::default;
        Self {
            classes: (0..CacheClass::COUNT).map(|_| (zero(), zero())).collect(),
            hits_staged: zero(),
            evictions: zero(),
            refused: zero(),
            failed_reads: zero(),
            failed_writes: zero(),
            damaged: zero(),
        }
    }
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

/// Reads a counter.
pub(crate) fn value(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Counters {
    pub fn hit(&self, class: CacheClass) {
        if let Some((hits, _)) = self.classes.get(class.number()) {
            add(hits, 1);
        }
    }

    pub fn wrote(&self, class: CacheClass, bytes: u64) {
        if let Some((_, written)) = self.classes.get(class.number()) {
            add(written, bytes);
        }
    }

    pub fn classes(&self) -> Vec<ClassStatus> {
        let status =
            |(class, (hits, written)): (CacheClass, &(AtomicU64, AtomicU64))| ClassStatus {
                class,
                hits: value(hits),
                bytes_written: value(written),
            };
        let all = CacheClass::all().zip(&self.classes).map(status);
        all.filter(|s| s.hits + s.bytes_written > 0).collect()
    }
}
