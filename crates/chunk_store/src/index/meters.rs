//! What the index counts.
//!
//! Invariant: counting never blocks; the numbers of one moment need not belong together.

use std::fmt::Display;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// What the index did and what it is, for metrics and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexCounters {
    /// Lookups.
    pub probes: u64,
    /// Buckets that lookups read from the device: at most one a lookup.
    pub device_reads: u64,
    /// Candidates that were another chunk, as told by the caller.
    pub false_positives: u64,
    /// Buckets that could not be read or verified.
    pub bad_buckets: u64,
    /// Entries that found no room within the memory budget. Not 0: the index is incomplete.
    pub dropped: u64,
    /// Times that the file could not be written.
    pub write_failures: u64,
    /// Entries, in the file and waiting; an entry inserted twice may count twice until merged.
    pub entries: u64,
    /// Of these, those in the overflow table.
    pub overflow_entries: u64,
    /// Of these, those that wait for a merge.
    pub pending_entries: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes of memory in use.
    pub memory_bytes: u64,
}

/// The counters behind it, and the one flag that goes with them.
#[derive(Default)]
pub(super) struct Meters {
    pub(super) probes: AtomicU64,
    pub(super) device_reads: AtomicU64,
    pub(super) false_positives: AtomicU64,
    pub(super) bad_buckets: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) write_failures: AtomicU64,
    /// The first of them, in words.
    pub(super) first_failure: OnceLock<String>,
    /// The file could not be written: only commits try again.
    pub(super) rests: AtomicBool,
    /// Entries in the file's buckets, as of the last merge.
    pub(super) file_entries: AtomicU64,
    /// Bytes of the file, as of the last merge.
    pub(super) file_bytes: AtomicU64,
    /// Something that was indexed is not answered any more.
    pub(super) damaged: AtomicBool,
}

impl Meters {
    /// Adds one.
    pub(super) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Relaxed);
    }

    /// The file was written: so many entries are in it, so many bytes it is.
    pub(super) fn stands(&self, entries: u64, bytes: u64) {
        self.file_entries.store(entries, Relaxed);
        self.file_bytes.store(bytes, Relaxed);
    }

    /// Adds what is counted here to what the caller knows.
    pub(super) fn with(&self, state: IndexCounters) -> IndexCounters {
        IndexCounters {
            probes: self.probes.load(Relaxed),
            device_reads: self.device_reads.load(Relaxed),
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

    /// The file could not be written.
    pub(super) fn rest(&self, why: &dyn Display) {
        Self::count(&self.write_failures);
        let _ = self.first_failure.set(why.to_string());
        self.rests.store(true, Relaxed);
    }

    /// A bucket is lost, and with it what the coverage promised.
    pub(super) fn lose_bucket(&self) {
        Self::count(&self.bad_buckets);
        self.damaged.store(true, Relaxed);
    }
}
