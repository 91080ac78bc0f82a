//! What all open volumes share: journal, page cache, and the one round that may be under way.
//!
//! Invariant: a lock here is held for a moment, but the driver's, which is held for a step of a checkpoint;
//! others wait for it only when there is no room. Called by volumes, handles and whoever drives the steps.

mod checkpoint;

pub(super) use checkpoint::Driver;
pub use checkpoint::Step;

use super::VolumesOptions;
use super::admission::Admission;
use super::backing::Backing;
use super::direct::DirectLanes;
use super::fetcher::Fetcher;
use super::levels::Levels;
use super::losses::Losses;
use super::registry::Registry;
use super::restraint::Restraint;
use super::room::Room;
use crate::budget::VolumesMemory;
use crate::error::{Result, StoreError};
use crate::journal::JournalDamage;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What checkpoints did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointCounts {
    /// Commits.
    pub rounds: u64,
    /// Bytes of chunks assembled.
    pub destaged_bytes: u64,
    /// Times that a writer found the journal full.
    pub full: u64,
}

/// See the module's head.
pub(crate) struct Engine {
    pub backing: Arc<Backing>,
    pub levels: Arc<Levels>,
    pub registry: Arc<Registry>,
    pub driver: Mutex<Driver>,
    pub direct: Arc<DirectLanes>,
    pub fetcher: Arc<Fetcher>,
    pub room: Arc<Room>,
    pub restraint: Arc<Restraint>,
    pub admission: Admission,
    pub losses: Arc<Losses>,
    rounds: AtomicU64,
    destaged_bytes: AtomicU64,
    full: AtomicU64,
    /// Signalled when there is work for the driver.
    pressed: Mutex<bool>,
    work: Condvar,
}

impl Engine {
    pub fn new(
        backing: Arc<Backing>,
        options: &VolumesOptions,
        memory: &VolumesMemory,
        damage: Vec<JournalDamage>,
    ) -> Self {
        let levels = Levels::new(Arc::clone(&backing), options.thresholds, memory);
        let levels = Arc::new(levels);
        let direct = DirectLanes::new(Arc::clone(&backing), options.direct);
        let direct = Arc::new(direct);
        let room = Room::new(
            Arc::clone(&backing),
            Arc::clone(&levels),
            Arc::clone(&direct),
        );
        Self {
            losses: Arc::new(Losses::new(Arc::clone(&backing), damage)),
            restraint: Arc::new(Restraint::new(Arc::clone(&backing.pool))),
            room: Arc::new(room),
            levels,
            fetcher: Arc::new(Fetcher::new(Arc::clone(&backing))),
            direct,
            backing,
            registry: Arc::default(),
            driver: Mutex::default(),
            admission: Admission::default(),
            rounds: AtomicU64::new(0),
            destaged_bytes: AtomicU64::new(0),
            full: AtomicU64::new(0),
            pressed: Mutex::new(false),
            work: Condvar::new(),
        }
    }

    pub fn counts(&self) -> CheckpointCounts {
        CheckpointCounts {
            rounds: self.rounds.load(Ordering::Relaxed),
            destaged_bytes: self.destaged_bytes.load(Ordering::Relaxed),
            full: self.full.load(Ordering::Relaxed),
        }
    }

    pub fn no_room() -> StoreError {
        StoreError::no_space("the journal is full and cannot be emptied")
    }

    /// Returns when every acknowledged write survives power loss.
    pub fn flush(&self) -> Result<()> {
        self.direct.flush()?;
        self.backing.journal.flush()
    }

    /// There is work for the driver.
    pub fn press(&self) {
        *self.pressed.lock() = true;
        self.work.notify_one();
    }

    /// A writer found no room.
    pub fn note_full(&self) {
        self.full.fetch_add(1, Ordering::Relaxed);
    }

    /// Rounds so far: read before an attempt to append, given to [`Self::make_room`] when it fails.
    pub fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Acquire)
    }

    /// Waits until there is work, at most so long. True when there is.
    pub fn wait_for_work(&self, at_most: Duration) -> bool {
        let mut pressed = self.pressed.lock();
        self.work
            .wait_while_for(&mut pressed, |pressed| !*pressed, at_most);
        std::mem::replace(&mut *pressed, false)
    }

    /// For shutting down: whoever waits for work stops waiting.
    pub fn wake(&self) {
        *self.pressed.lock() = true;
        self.work.notify_all();
    }
}
