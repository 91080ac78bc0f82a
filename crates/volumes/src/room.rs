//! Space on the pool's disk that volumes may take, and how much of it acknowledged writes still
//! need.
//!
//! The checkpointer and admission call this.
//! Invariant: a checkpoint leaves the space that garbage collection and deletion need, because they
//! free space for the next one.

use super::backing::Backing;
use super::direct::DirectLanes;
use super::levels::Levels;
use media::Need;
use std::sync::Arc;
use store::{Result, StoreError};

/// Minimum space for a checkpoint: with less, a commit is not worth its cost.
const ROUND_BYTES_MIN: u64 = 256 << 10;

/// Computes space. See the module's head.
pub(super) struct Room {
    backing: Arc<Backing>,
    levels: Arc<Levels>,
    direct: Arc<DirectLanes>,
}

impl Room {
    pub fn new(backing: Arc<Backing>, levels: Arc<Levels>, direct: Arc<DirectLanes>) -> Self {
        Self {
            backing,
            levels,
            direct,
        }
    }

    /// Returns how many bytes a checkpoint that begins now may store. Fails with `NoSpace` if they
    /// are too few. The reserve for garbage collection and deletion is not included.
    pub fn of_round(&self) -> Result<u64> {
        let Some(reserved) = self.backing.pool.reserved() else {
            return Ok(u64::MAX);
        };
        let room = reserved.for_need(Need::Acknowledged);
        let owed = self.owed_bytes();
        if room / 2 >= owed {
            return Ok(u64::MAX);
        }
        // Settle direct writes first: only an upper bound of their unwritten bytes is known before.
        self.direct.settle()?;
        let room = self
            .backing
            .pool
            .reserved()
            .map_or(room, |r| r.for_need(Need::Acknowledged));
        // Checkpoints sometimes need more than the estimate.
        let room = room / 4 * 3;
        if room < ROUND_BYTES_MIN {
            let why =
                "the pool's disk has no space for the writes of volumes; they stay in the journal";
            return Err(StoreError::no_space(why));
        }
        Ok(room)
    }

    /// Returns about how much space acknowledged writes need that are in no container yet.
    pub fn owed_bytes(&self) -> u64 {
        let unapplied = match self.levels.pieces.count() {
            0 => 0,
            _ => self.backing.journal.usage().used_bytes,
        };
        // Chunks, and the nodes that name them.
        let applied = unapplied.saturating_add(unapplied / 8);
        applied.saturating_add(self.direct.open_bytes())
    }
}
