//! What writers do when the journal, the memory for pieces, or the pool's disk fills up.
//!
//! Invariant: pieces that no root holds take no more memory than they were given, but for one of each
//! writer that is under way; who writes waits, who reads does not. A round begins before half of the room
//! is taken, so that writers go on while it lasts. Called by who writes to volumes.

mod admission;
mod restraint;

pub use restraint::RestraintCounts;

use super::backing::Backing;
use super::checkpointer::{Checkpointer, Driver, Step};
use super::direct::DirectLanes;
use super::levels::Levels;
use super::room::Room;
use admission::Admission;
use restraint::Restraint;
use std::sync::Arc;
use store::Result;

/// Rounds that one writer waits for room in memory: what every round puts back (writes around damage)
/// leaves none for ever.
const ROUNDS_MAX: u32 = 100;
/// Bytes that a writer turns into chunks itself when it finds no room.
const ROOM_STEP_BYTES: u64 = 8 << 20;
/// ... and when it finds little: so writers slow down before they stop.
const PRESSED_STEP_BYTES: u64 = 256 << 10;

/// See the module's head.
pub(super) struct BackPressure {
    backing: Arc<Backing>,
    levels: Arc<Levels>,
    checkpointer: Arc<Checkpointer>,
    /// Whether writers wait for room on the disk.
    pub restraint: Arc<Restraint>,
    /// Which writes there is room for.
    pub admission: Admission,
}

impl BackPressure {
    pub fn new(
        backing: Arc<Backing>,
        levels: Arc<Levels>,
        room: Arc<Room>,
        direct: Arc<DirectLanes>,
        checkpointer: Arc<Checkpointer>,
    ) -> Self {
        let restraint = Arc::new(Restraint::new(Arc::clone(&backing.pool)));
        let admission = Admission::new(
            Arc::clone(&backing.pool),
            Arc::clone(&levels),
            room,
            direct,
            Arc::clone(&restraint),
            Arc::clone(&checkpointer),
        );
        Self {
            backing,
            levels,
            checkpointer,
            restraint,
            admission,
        }
    }

    /// After a write: writes out full buffers, wakes the driver, and helps it when it lags.
    pub fn written(&self) -> Result<()> {
        self.backing.journal.write_out()?;
        if self.levels.wants_checkpoint(false) {
            self.checkpointer.signal.press();
        }
        if self.levels.is_pressed()
            && !self.restraint.is_held_back()
            && let Some(mut driver) = self.checkpointer.driver.try_lock()
        {
            match self.checkpointer.step_with(&mut driver, PRESSED_STEP_BYTES) {
                // This write is accepted; the next one asks whether there is room.
                Err(e) if e.is_full() => {}
                helped => drop(helped?),
            }
        }
        Ok(())
    }

    /// Returns when memory has room for another piece. `may_wait`: for room on the disk too.
    pub fn wait_for_pieces(&self, may_wait: bool) -> Result<()> {
        let mut rounds = 0;
        while self.levels.pieces.count() >= self.levels.pieces.max {
            let before = self.checkpointer.rounds();
            let mut idle = false;
            // Nothing to fold: somebody just made room in another way.
            self.work_or_wait(before, may_wait, |_| {
                idle = true;
                Ok(())
            })?;
            rounds += u32::from(idle || self.checkpointer.rounds() != before);
            if rounds > ROUNDS_MAX {
                return Err(Checkpointer::no_room());
            }
        }
        Ok(())
    }

    /// The journal was full: works on the round, or waits for who does. `before` are the rounds
    /// before the attempt that failed: a round that ended since has made room, and a journal that
    /// is empty now is no journal that cannot be emptied. `may_wait`: for room on the disk too.
    pub fn make_room(&self, before: u64, may_wait: bool) -> Result<()> {
        self.work_or_wait(before, may_wait, |driver| {
            self.checkpointer.drop_unneeded(driver)
        })
    }

    /// Works on the round unless one has ended since `before`.
    fn work_or_wait(
        &self,
        before: u64,
        may_wait: bool,
        when_idle: impl FnOnce(&mut Driver) -> Result<()>,
    ) -> Result<()> {
        self.checkpointer.note_full();
        self.backing.journal.write_out()?;
        if may_wait {
            self.restraint.hold_back();
        }
        let mut driver = self.checkpointer.driver.lock();
        if self.checkpointer.rounds() != before {
            return Ok(());
        }
        match self.checkpointer.step_with(&mut driver, ROOM_STEP_BYTES)? {
            Step::Idle => when_idle(&mut driver),
            Step::Working | Step::Committed => Ok(()),
        }
    }
}
