//! Back-pressure: delays writers when the journal, the memory for pieces, or the pool's disk runs
//! full.
//!
//! The write path calls this.
//! Invariant: pieces that no root holds take at most their share of memory, plus one piece of each
//! writer in progress. Writers wait; readers do not. The driver is woken before active pieces fill
//! half of that memory, so that writers continue during a checkpoint.

mod admission;
mod waits;

pub use waits::WriterWaitCounts;

use super::backing::Backing;
use super::checkpointer::{CheckpointStep, Checkpointer, Driver};
use super::direct::DirectLanes;
use super::levels::Levels;
use super::room::Room;
use admission::Admission;
use std::sync::Arc;
use store::Result;
use waits::WriterWaits;

/// Maximum number of checkpoints that a writer waits for memory. Writes around damage return after
/// every checkpoint and could block it for ever.
const ROUNDS_MAX: u32 = 100;
/// Bytes that a writer destages itself when it finds no space.
const ROOM_STEP_BYTES: u64 = 8 << 20;
/// The same when it finds little: writers slow down before they stop.
const PRESSED_STEP_BYTES: u64 = 256 << 10;

/// State of back-pressure. See the module's head.
pub(super) struct BackPressure {
    backing: Arc<Backing>,
    levels: Arc<Levels>,
    checkpointer: Arc<Checkpointer>,
    /// Makes writers wait for space on the disk.
    pub waits: Arc<WriterWaits>,
    /// Admits writes for which there is space.
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
        let waits = Arc::new(WriterWaits::new(Arc::clone(&backing.pool)));
        let admission = Admission::new(
            Arc::clone(&backing.pool),
            Arc::clone(&levels),
            room,
            direct,
            Arc::clone(&waits),
            Arc::clone(&checkpointer),
        );
        Self {
            backing,
            levels,
            checkpointer,
            waits,
            admission,
        }
    }

    /// Called after a write: writes full buffers out, wakes the driver, and helps it if it lags.
    pub fn written(&self) -> Result<()> {
        self.backing.journal.write_out()?;
        if self.levels.wants_checkpoint(false) {
            self.checkpointer.signal.press();
        }
        if self.levels.is_pressed()
            && !self.waits.is_held_back()
            && let Some(mut driver) = self.checkpointer.driver.try_lock()
        {
            match self.checkpointer.step_with(&mut driver, PRESSED_STEP_BYTES) {
                // This write is accepted; the next one checks the space.
                Err(e) if e.is_full() => {}
                helped => drop(helped?),
            }
        }
        Ok(())
    }

    /// Waits until memory has space for another piece. `may_wait`: also for space on the disk.
    pub fn wait_for_pieces(&self, may_wait: bool) -> Result<()> {
        let mut rounds = 0;
        while self.levels.pieces.count() >= self.levels.pieces.max {
            let before = self.checkpointer.rounds();
            let mut idle = false;
            // Nothing to apply: another thread has just made space.
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

    /// Makes space in a full journal: helps the running checkpoint, or waits for the thread that
    /// runs it. `before` is the number of checkpoints before the failed attempt. If one ended
    /// since, there is space, and the journal only seems impossible to empty. `may_wait`: also
    /// waits for space on the disk.
    pub fn make_room(&self, before: u64, may_wait: bool) -> Result<()> {
        self.work_or_wait(before, may_wait, |driver| {
            self.checkpointer.drop_unneeded(driver)
        })
    }

    /// Helps the running checkpoint unless one has ended since `before`.
    fn work_or_wait(
        &self,
        before: u64,
        may_wait: bool,
        when_idle: impl FnOnce(&mut Driver) -> Result<()>,
    ) -> Result<()> {
        self.checkpointer.note_full();
        self.backing.journal.write_out()?;
        if may_wait {
            self.waits.hold_back();
        }
        let mut driver = self.checkpointer.driver.lock();
        if self.checkpointer.rounds() != before {
            return Ok(());
        }
        match self.checkpointer.step_with(&mut driver, ROOM_STEP_BYTES)? {
            CheckpointStep::Idle => when_idle(&mut driver),
            CheckpointStep::Working | CheckpointStep::Committed => Ok(()),
        }
    }
}
