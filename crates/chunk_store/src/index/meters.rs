//! Counters of the index. Its other modules count; metrics and tests read.
//!
//! Invariant: counting never blocks. Numbers that are read together may be from different moments.

use std::fmt::Display;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Counters and sizes of the index, for metrics and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexCounters {
    /// Lookups.
    pub probes: u64,
    /// Buckets that lookups read from the device: at most one for each lookup, unless a writer
    /// interferes.
    pub device_reads: u64,
    /// Part of `device_reads` from the copy on a faster device.
    pub copy_reads: u64,
    /// Lookups whose bucket was not in memory, and whose filter knew that it has no such key.
    pub denials: u64,
    /// Candidates that were another chunk, as reported by callers.
    pub false_positives: u64,
    /// Buckets that could not be read or failed verification.
    pub bad_buckets: u64,
    /// Entries that did not fit into the memory budget. If it is not 0, the index is incomplete.
    pub dropped: u64,
    /// Failed writes of the file.
    pub write_failures: u64,
    /// Entries in the file and pending. An entry that was inserted twice may count twice until it
    /// is merged.
    pub entries: u64,
    /// Part of `entries` in the overflow table.
    pub overflow_entries: u64,
    /// Part of `entries` that waits for a merge.
    pub pending_entries: u64,
    /// Size of the file, bytes.
    pub file_bytes: u64,
    /// Memory used, bytes.
    pub memory_bytes: u64,
}

/// The counters and flags behind [`IndexCounters`].
#[derive(Default)]
pub(super) struct Meters {
    pub(super) probes: AtomicU64,
    pub(super) device_reads: AtomicU64,
    pub(super) copy_reads: AtomicU64,
    pub(super) denials: AtomicU64,
    pub(super) false_positives: AtomicU64,
    pub(super) bad_buckets: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) write_failures: AtomicU64,
    /// Text of the first write failure.
    pub(super) first_failure: OnceLock<String>,
    /// The file could not be written. Only commits try again.
    pub(super) rests: AtomicBool,
    /// Entries in the file's buckets, as of the last merge.
    pub(super) file_entries: AtomicU64,
    /// Size of the file as of the last merge, bytes.
    pub(super) file_bytes: AtomicU64,
    /// Indexed entries may be lost.
    pub(super) damaged: AtomicBool,
}

impl Meters {
    /// Adds one.
    pub(super) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Relaxed);
    }

    /// Records the size of the file after a write.
    pub(super) fn stands(&self, entries: u64, bytes: u64) {
        self.file_entries.store(entries, Relaxed);
        self.file_bytes.store(bytes, Relaxed);
    }

    /// Adds these counters to the caller's part.
    pub(super) fn with(&self, state: IndexCounters) -> IndexCounters {
        IndexCounters {
            probes: self.probes.load(Relaxed),
            device_reads: self.device_reads.load(Relaxed),
            copy_reads: self.copy_reads.load(Relaxed),
            denials: self.denials.load(Relaxed),
            false_positives: self.false_positives.load(Relaxed),
            bad_buckets: self.bad_buckets.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            write_failures: self.write_failures.load(Relaxed),
            entries: self.file_entries.load(Relaxed)
                + state.overflow_entries
                + state.pending_entries,
            file_bytes: self.file_bytes.load(Relaxed),
            ..state
        }
    }

    /// Records a failed write of the file.
    pub(super) fn rest(&self, why: &dyn Display) {
        Self::count(&self.write_failures);
        let _ = self.first_failure.set(why.to_string());
        self.rests.store(true, Relaxed);
    }

    /// Records a lost bucket. The coverage is void with it.
    pub(super) fn lose_bucket(&self) {
        Self::count(&self.bad_buckets);
        self.damaged.store(true, Relaxed);
    }
}
