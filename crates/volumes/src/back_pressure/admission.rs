//! Admission: refuses writes that would take space that recovery and garbage collection need,
//! before they begin.
//!
//! The write path calls this.
//! Invariant: an admitted write can be stored: beside the reserve, the disk has space for
//! everything in the journal, for direct writes that are in no container yet, and for the write.
//! Writes of zeroes are never refused, because they free space. Free space is not checked for each
//! write: a part of what was found is handed out.

use super::super::checkpointer::{CheckpointStep, Checkpointer};
use super::super::direct::DirectLanes;
use super::super::levels::Levels;
use super::super::room::Room;
use super::waits::WriterWaits;
use media::Need;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use store::Pool;
use store::{Result, StoreError};

/// Maximum number of bytes that are admitted without a new check: other programs may fill the disk.
const PART_BYTES_MAX: u64 = 8 << 20;
/// Bytes that a refused writer destages at a time to free journal space.
const STEP_BYTES: u64 = 8 << 20;

/// State of admission. See the module's head.
pub(crate) struct Admission {
    pool: Arc<Pool>,
    levels: Arc<Levels>,
    room: Arc<Room>,
    direct: Arc<DirectLanes>,
    waits: Arc<WriterWaits>,
    checkpointer: Arc<Checkpointer>,
    /// Bytes of the last check that are not handed out yet.
    left_bytes: AtomicU64,
}

impl Admission {
    pub fn new(
        pool: Arc<Pool>,
        levels: Arc<Levels>,
        room: Arc<Room>,
        direct: Arc<DirectLanes>,
        waits: Arc<WriterWaits>,
        checkpointer: Arc<Checkpointer>,
    ) -> Self {
        Self {
            pool,
            levels,
            room,
            direct,
            waits,
            checkpointer,
            left_bytes: AtomicU64::new(0),
        }
    }

    /// Takes `bytes` from the last check. Returns false if fewer are left.
    pub fn is_admitted(&self, bytes: u64) -> bool {
        let take = |left: u64| left.checked_sub(bytes);
        self.left_bytes.fetch_update(Relaxed, Relaxed, take).is_ok()
    }

    /// Returns when `bytes` may be written. Fails with `NoSpace` if there is no space for them even
    /// after applying the journal's writes. The caller must hold no locks.
    pub fn admit(&self, bytes: u64) -> Result<()> {
        if self.is_admitted(bytes) || self.finds_room(bytes) {
            return Ok(());
        }
        // The thread that frees space decides whether waiting helps. Without it, the journal would
        // take writes that cannot be applied and that block trims.
        self.waits.hold_back();
        if self.finds_room(bytes) {
            return Ok(());
        }
        self.direct.settle()?;
        // Not with the reserve: it is for operations that free space.
        let is_room = self
            .pool
            .reserved()
            .is_some_and(|r| r.free_bytes >= self.room.owed_bytes());
        let is_room_to_make = || is_room && self.levels.pieces.count() > 0;
        while is_room_to_make()
            && matches!(
                self.checkpointer.step(STEP_BYTES),
                Ok(CheckpointStep::Working)
            )
        {}
        if self.finds_room(bytes) {
            return Ok(());
        }
        let why = "the remaining space of the pool's disk is reserved for recovery and gc";
        Err(StoreError::no_space(why))
    }

    fn finds_room(&self, bytes: u64) -> bool {
        let Some(reserved) = self.pool.reserved() else {
            // Free space is unknown: a write will fail when the disk is full.
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
