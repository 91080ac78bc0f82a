//! Counts where requests for one volume, or one view, found their chunks.
//!
//! Reads count; the program shows the counters.
//! Invariant: every chunk or page that a request looked up is counted once. Read-ahead and
//! checkpoints are not counted. A read from the journal counts once for each piece. A request adds
//! its counts once.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts of lookups. See the module's head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheTally {
    /// Chunks that the page cache found by place.
    pub hits_by_place: u64,
    /// Chunks that it found by fingerprint: another place, snapshot or volume had loaded them.
    pub hits_by_content: u64,
    /// Dirty pages that were found in memory.
    pub hits_dirty: u64,
    /// Lookups that found nothing in memory: the device was read.
    pub misses: u64,
}

impl CacheTally {
    /// Returns the number of lookups.
    pub fn looks(&self) -> u64 {
        self.hits_by_place + self.hits_by_content + self.hits_dirty + self.misses
    }

    /// Returns the counts since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            hits_by_place: self.hits_by_place.saturating_sub(earlier.hits_by_place),
            hits_by_content: self.hits_by_content.saturating_sub(earlier.hits_by_content),
            hits_dirty: self.hits_dirty.saturating_sub(earlier.hits_dirty),
            misses: self.misses.saturating_sub(earlier.misses),
        }
    }
}

/// Counts that threads add to.
#[derive(Debug, Default)]
pub struct CacheMeter([AtomicU64; 4]);

impl CacheMeter {
    /// Returns the current counts.
    pub fn read(&self) -> CacheTally {
        let [place, content, dirty, misses] = self.0.each_ref().map(|count| count.load(Relaxed));
        CacheTally {
            hits_by_place: place,
            hits_by_content: content,
            hits_dirty: dirty,
            misses,
        }
    }

    pub(super) fn add(&self, tally: &CacheTally) {
        let counts = [
            tally.hits_by_place,
            tally.hits_by_content,
            tally.hits_dirty,
            tally.misses,
        ];
        for (meter, count) in self.0.iter().zip(counts) {
            if count > 0 {
                meter.fetch_add(count, Relaxed);
            }
        }
    }
}
