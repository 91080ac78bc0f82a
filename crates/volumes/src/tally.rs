//! Where the requests for one volume, or one view, found their chunks.
//!
//! Invariant: every chunk or page that a request looked for is counted once; what is read ahead or for
//! checkpoints is not. What is read back from the journal counts once a piece. One addition a request. Called by who reads; the program shows it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// See the module's head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheTally {
    /// Chunks that the page cache knew by their place.
    pub hits_by_place: u64,
    /// Chunks that it knew by their content: another place, snapshot or volume had brought them in.
    pub hits_by_content: u64,
    /// Written pages that no checkpoint has folded in, in memory.
    pub hits_unwritten: u64,
    /// Neither: the device was asked.
    pub misses: u64,
}

impl CacheTally {
    /// All that was looked for.
    pub fn looks(&self) -> u64 {
        self.hits_by_place + self.hits_by_content + self.hits_unwritten + self.misses
    }

    /// What was added since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            hits_by_place: self.hits_by_place.saturating_sub(earlier.hits_by_place),
            hits_by_content: self.hits_by_content.saturating_sub(earlier.hits_by_content),
            hits_unwritten: self.hits_unwritten.saturating_sub(earlier.hits_unwritten),
            misses: self.misses.saturating_sub(earlier.misses),
        }
    }
}

/// A tally while it changes.
#[derive(Debug, Default)]
pub struct CacheMeter([AtomicU64; 4]);

impl CacheMeter {
    /// What it shows now.
    pub fn read(&self) -> CacheTally {
        let [place, content, unwritten, misses] =
            self.0.each_ref().map(|count| count.load(Relaxed));
        CacheTally {
            hits_by_place: place,
            hits_by_content: content,
            hits_unwritten: unwritten,
            misses,
        }
    }

    pub(super) fn add(&self, tally: &CacheTally) {
        let counts = [
            tally.hits_by_place,
            tally.hits_by_content,
            tally.hits_unwritten,
            tally.misses,
        ];
        for (meter, count) in self.0.iter().zip(counts) {
            if count > 0 {
                meter.fetch_add(count, Relaxed);
            }
        }
    }
}
