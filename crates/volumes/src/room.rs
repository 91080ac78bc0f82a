//! What of the pool's disk volumes may take: how much of it is owed to what was acknowledged.
//!
//! Invariant: a round leaves what collection and deletion need; they make the room for the next one.
//! Called by the checkpointer and by who admits writes.

use super::backing::Backing;
use super::direct::DirectLanes;
use super::levels::Levels;
use media::Need;
use std::sync::Arc;
use store::{Result, StoreError};

/// A round takes so much at least: less is not worth a commit.
const ROUND_BYTES_MIN: u64 = 256 << 10;

/// See the module's head.
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

    /// Bytes that a round may store, that begins now; `NoSpace` when that is too little for any. What is
    /// kept for collection and deletion stays: they make the room for the next round.
    pub fn of_round(&self) -> Result<u64> {
        let Some(reserved) = self.backing.pool.reserved() else {
            return Ok(u64::MAX);
        };
        let room = reserved.for_need(Need::Acknowledged);
        let owed = self.owed_bytes();
        if room / 2 >= owed {
            return Ok(u64::MAX);
        }
        // Large writes first: what of them is in no container yet is only known to be less than was counted.
        self.direct.settle()?;
        let room = self
            .backing
            .pool
            .reserved()
            .map_or(room, |r| r.for_need(Need::Acknowledged));
        // What was estimated takes more sometimes.
        let room = room / 4 * 3;
        if room < ROUND_BYTES_MIN {
            let why = "the pool's disk has no room for what volumes wrote: it stays in the journal";
            return Err(StoreError::no_space(why));
        }
        Ok(room)
    }

    /// What is acknowledged and is in no container yet takes so much, about.
    pub fn owed_bytes(&self) -> u64 {
        let unfolded = match self.levels.pieces.count() {
            0 => 0,
            _ => self.backing.journal.usage().used_bytes,
        };
        // Chunks, and the nodes that name them.
        let folded = unfolded.saturating_add(unfolded / 8);
        folded.saturating_add(self.direct.open_bytes())
    }
}
