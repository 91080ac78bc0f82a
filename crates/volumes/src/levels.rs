//! How full the journal and the memory for pieces are, and what the thresholds say to that.
//!
//! Invariant: says only; nobody waits here. A round begins before half of the room is taken, so that
//! writers go on while it lasts. Called by rounds, by writers and by the program's driver.

use super::backing::Backing;
use super::kept::Kept;
use super::overlay::{PIECE_BYTES, Tally};
use crate::budget::VolumesMemory;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A volume that keeps more than this part of the journal, or of the room for pieces, takes no more
/// writes.
const SHARE: u64 = 4;
/// When checkpoints begin and end (the syncer of DSS, SOSP'11: from 75 % dirty down to 25 %), in
/// percent of what the journal and the overlays may hold.
#[derive(Clone, Copy, Debug)]
pub struct Thresholds {
    /// Checkpoints begin here.
    pub start: u64,
    /// ... and go on until here.
    pub stop: u64,
    /// From here on writers help.
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

/// Pieces of all volumes.
pub(crate) struct Pieces {
    /// That a round works on.
    pub frozen: Tally,
    /// That the next one will.
    pub active: Tally,
    /// Of both, that memory has room for.
    pub max: u64,
    /// Of those that are active: no round can take them, and they have room of their own.
    kept: AtomicU64,
}

impl Pieces {
    /// Room for so many.
    pub fn new(max: u64) -> Self {
        Self {
            frozen: Tally::default(),
            active: Tally::default(),
            max: max.max(1),
            kept: AtomicU64::new(0),
        }
    }

    /// All that rounds can take.
    pub fn count(&self) -> u64 {
        self.frozen.count() + self.takeable()
    }

    /// Those that no round can take.
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

    /// As if half of the room were for what is active: the other half is for what comes while that is
    /// frozen.
    fn filled_with_active(&self) -> u64 {
        self.takeable() * 200 / self.max
    }
}

/// See the module's head.
pub(super) struct Levels {
    backing: Arc<Backing>,
    thresholds: Thresholds,
    /// What overlays hold, and may.
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

    /// How near a checkpoint is, percent.
    pub fn filled(&self) -> u64 {
        let journal = self.backing.journal.filled_percent();
        journal.max(self.pieces.filled_with_active())
    }

    /// True when writers are asked to help.
    pub fn is_pressed(&self) -> bool {
        let filled = self
            .backing
            .journal
            .filled_percent()
            .max(self.pieces.filled());
        filled >= self.thresholds.help
    }

    /// True while the thresholds ask for checkpoints: from `start` until `stop`.
    pub fn wants_checkpoint(&self, under_way: bool) -> bool {
        let limit = match under_way {
            true => self.thresholds.stop,
            false => self.thresholds.start,
        };
        self.filled() >= limit
    }

    /// True when a volume that keeps so much takes no more writes.
    pub fn is_too_much(&self, kept: &Kept) -> bool {
        kept.bytes > self.backing.journal.bytes_max() / SHARE
            || kept.pieces > self.pieces.max / SHARE
    }
}
