//! Compares the journal and the memory for pieces with the thresholds of checkpoints.
//!
//! Checkpoints, writers and the driver of checkpoints call this.
//! Invariant: computes only and never waits. A checkpoint is due before active pieces fill half of
//! the memory for pieces: the other half is for writes during the checkpoint.

use super::backing::Backing;
use super::kept::KeptRanges;
use super::overlay::{PIECE_BYTES, Tally};
use crate::budget::VolumesMemory;
use page_cache::PAGE_BYTES;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A volume refuses writes if its kept writes exceed 1/`SHARE` of the journal, or of the memory for
/// pieces.
const SHARE: u64 = 4;
/// When checkpoints begin and end, percent of the limits of the journal and the overlays (the
/// syncer of DSS, SOSP'11: from 75 % dirty down to 25 %).
#[derive(Clone, Copy, Debug)]
pub struct Thresholds {
    /// Checkpoints begin at this level.
    pub start: u64,
    /// They continue down to this level.
    pub stop: u64,
    /// Writers help from this level on.
    pub help: u64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            start: 75,
            stop: 25,
            help: 90,
        }
    }
}

/// Numbers of pieces of all volumes.
pub(crate) struct Pieces {
    /// Pieces in a running checkpoint.
    pub frozen: Tally,
    /// Pieces for the next checkpoint.
    pub active: Tally,
    /// Maximum number of both together.
    pub max: u64,
    /// Active pieces that no checkpoint can take. They have space of their own.
    kept: AtomicU64,
}

impl Pieces {
    /// Counts up to `max` pieces.
    pub fn new(max: u64) -> Self {
        Self {
            frozen: Tally::default(),
            active: Tally::default(),
            max: max.max(1),
            kept: AtomicU64::new(0),
        }
    }

    /// Returns the number of pieces that checkpoints can take.
    pub fn count(&self) -> u64 {
        self.frozen.count() + self.takeable()
    }

    /// Sets the number of pieces that no checkpoint can take.
    pub fn set_kept(&self, count: u64) {
        self.kept.store(count, Relaxed);
    }

    fn takeable(&self) -> u64 {
        let kept = self.kept.load(Relaxed);
        self.active.count().saturating_sub(kept)
    }

    fn filled(&self) -> u64 {
        self.count() * 100 / self.max
    }

    /// Returns how full half of the memory is, percent: active pieces may fill one half, because
    /// the other half is for writes while they are frozen.
    fn filled_with_active(&self) -> u64 {
        self.takeable() * 200 / self.max
    }
}

/// Levels of the journal and of pieces. See the module's head.
pub(super) struct Levels {
    backing: Arc<Backing>,
    thresholds: Thresholds,
    /// Pieces in overlays, and their limit.
    pub pieces: Pieces,
}

impl Levels {
    pub fn new(backing: Arc<Backing>, thresholds: Thresholds, memory: &VolumesMemory) -> Self {
        Self {
            backing,
            thresholds,
            pieces: Pieces::new(memory.pieces / PIECE_BYTES as u64),
        }
    }

    /// Returns how close a checkpoint is, percent.
    pub fn filled(&self) -> u64 {
        let journal = self.backing.journal.filled_percent();
        journal.max(self.pieces.filled_with_active())
    }

    /// Returns true if writers must help.
    pub fn is_pressed(&self) -> bool {
        let filled = self
            .backing
            .journal
            .filled_percent()
            .max(self.pieces.filled());
        filled >= self.thresholds.help
    }

    /// Returns true while checkpoints are due: from `start` until `stop`.
    pub fn wants_checkpoint(&self, under_way: bool) -> bool {
        let limit = match under_way {
            true => self.thresholds.stop,
            false => self.thresholds.start,
        };
        self.filled() >= limit
    }

    /// Returns how many bytes may be in the journal when checkpoints stop, with a piece in memory
    /// for each page.
    pub fn may_stay_bytes(&self) -> u64 {
        let journal = self.backing.journal.bytes_max() * self.thresholds.stop / 100;
        let pieces = self.pieces.max / 2 * self.thresholds.stop / 100;
        journal.min(pieces * PAGE_BYTES as u64)
    }

    /// Returns true if a volume with these kept writes must refuse more.
    pub fn is_too_much(&self, kept: &KeptRanges) -> bool {
        kept.bytes > self.backing.journal.bytes_max() / SHARE
            || kept.pieces > self.pieces.max / SHARE
    }
}
