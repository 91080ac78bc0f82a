//! Writes that would take what recovery and collection need are refused before they begin.
//!
//! Invariant: what is admitted can be stored: beside the reserve there is room for all that the
//! journal holds, for large writes that no container holds yet, and for the write. Whoever makes
//! zeroes is never refused: they give room back. Little is looked up: what was found free is given
//! out in parts. Called by who writes to volumes.

use super::super::checkpointer::{Checkpointer, Step};
use super::super::direct::DirectLanes;
use super::super::levels::Levels;
use super::super::room::Room;
use super::restraint::Restraint;
use media::Need;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use store::Pool;
use store::{Result, StoreError};

/// Given out at most without another look at the disk: others may fill it too.
const PART_BYTES_MAX: u64 = 8 << 20;
/// Bytes that a refused writer turns into chunks at a time, to see whether that helps.
const STEP_BYTES: u64 = 8 << 20;

/// See the module's head.
pub(crate) struct Admission {
    pool: Arc<Pool>,
    levels: Arc<Levels>,
    room: Arc<Room>,
    direct: Arc<DirectLanes>,
    restraint: Arc<Restraint>,
    checkpointer: Arc<Checkpointer>,
    /// Of what was found free last, and is not given out.
    left_bytes: AtomicU64,
}

impl Admission {
    pub fn new(
        pool: Arc<Pool>,
        levels: Arc<Levels>,
        room: Arc<Room>,
        direct: Arc<DirectLanes>,
        restraint: Arc<Restraint>,
        checkpointer: Arc<Checkpointer>,
    ) -> Self {
        Self {
            pool,
            levels,
            room,
            direct,
            restraint,
            checkpointer,
            left_bytes: AtomicU64::new(0),
        }
    }

    /// True if so many bytes are left of what was found free last.
    pub fn is_admitted(&self, bytes: u64) -> bool {
        let take = |left: u64| left.checked_sub(bytes);
        self.left_bytes.fetch_update(Relaxed, Relaxed, take).is_ok()
    }

    /// Returns when so many bytes may be written; `NoSpace` when there is no room for them, and
    /// none comes of folding what the journal holds. The caller holds nothing.
    pub fn admit(&self, bytes: u64) -> Result<()> {
        if self.is_admitted(bytes) || self.finds_room(bytes) {
            return Ok(());
        }
        // Who makes room says when it is worth waiting. What the journal takes without room to fold
        // it would be in the way of trims.
        self.restraint.hold_back();
        if self.finds_room(bytes) {
            return Ok(());
        }
        self.direct.settle()?;
        // Not with the reserve: that is for who gives room back.
        let is_room = self
            .pool
            .reserved()
            .is_some_and(|r| r.free_bytes >= self.room.owed_bytes());
        let is_foldable = || is_room && self.levels.pieces.count() > 0;
        while is_foldable() && matches!(self.checkpointer.step(STEP_BYTES), Ok(Step::Working)) {}
        if self.finds_room(bytes) {
            return Ok(());
        }
        let why = "what is left of the pool's disk is kept for recovery and collection";
        Err(StoreError::no_space(why))
    }

    fn finds_room(&self, bytes: u64) -> bool {
        let Some(reserved) = self.pool.reserved() else {
            // Nobody knows: whoever writes is told when the disk is full.
            self.left_bytes.store(u64::MAX / 2, Relaxed);
            return true;
        };
        let free = reserved
            .for_need(Need::New)
            .saturating_sub(self.room.owed_bytes());
        let part = (free / 2).min(PART_BYTES_MAX);
        self.left_bytes.store(part, Relaxed);
        free >= bytes
    }
}
