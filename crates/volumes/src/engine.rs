//! Assembles the parts that open volumes share.
//!
//! Each part owns its state and its locks and refers to the parts that it needs:
//!
//! ```text
//! back-pressure
//! checkpointer
//! live volumes and their registry
//! space on the disk                       fetcher
//! levels, direct writes
//! backing
//! ```
//!
//! [`crate::Volumes`], its handles and the driver of checkpoints call this.
//! Invariant: a part knows only parts below it. Locks are held for a moment, except the
//! checkpointer's driver, which is held for a step of a checkpoint. Other threads wait for the
//! driver only if there is no space.

use super::VolumesOptions;
use super::back_pressure::BackPressure;
use super::backing::Backing;
use super::checkpointer::Checkpointer;
use super::direct::DirectLanes;
use super::fetcher::Fetcher;
use super::levels::Levels;
use super::losses::Losses;
use super::registry::Registry;
use super::room::Room;
use crate::budget::VolumesMemory;
use journal::JournalDamage;
use media::Need;
use std::sync::Arc;
use store::Result;

/// The assembled parts. See the module's head.
pub(crate) struct Engine {
    pub backing: Arc<Backing>,
    pub levels: Arc<Levels>,
    pub registry: Arc<Registry>,
    pub checkpointer: Arc<Checkpointer>,
    pub direct: Arc<DirectLanes>,
    pub fetcher: Arc<Fetcher>,
    pub back_pressure: BackPressure,
    pub losses: Arc<Losses>,
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
        let room = Arc::new(room);
        let registry: Arc<Registry> = Arc::default();
        let losses = Arc::new(Losses::new(Arc::clone(&backing), damage));
        let checkpointer = Checkpointer::new(
            Arc::clone(&backing),
            Arc::clone(&levels),
            Arc::clone(&room),
            Arc::clone(&direct),
            Arc::clone(&registry),
            Arc::clone(&losses),
        );
        let checkpointer = Arc::new(checkpointer);
        let back_pressure = BackPressure::new(
            Arc::clone(&backing),
            Arc::clone(&levels),
            room,
            Arc::clone(&direct),
            Arc::clone(&checkpointer),
        );
        Self {
            checkpointer,
            losses,
            back_pressure,
            levels,
            fetcher: Arc::new(Fetcher::new(Arc::clone(&backing))),
            direct,
            backing,
            registry,
        }
    }

    /// Returns when every acknowledged write survives power loss.
    pub fn flush(&self) -> Result<()> {
        self.flush_for(Need::Acknowledged)
    }

    /// The same; chunks of large writes may take the part of the reserve that `need` allows.
    pub fn flush_for(&self, need: Need) -> Result<()> {
        self.direct.flush(need)?;
        self.backing.journal.flush()
    }

    /// The same for a client's request. While the server frees space, it waits for that instead of
    /// failing, as a write does. The caller must hold no locks.
    pub fn flush_for_client(&self) -> Result<()> {
        let waits = &self.back_pressure.waits;
        while let Err(e) = self.direct.flush(Need::Acknowledged) {
            if !e.is_full() || self.direct.has_failed() || !waits.is_held_back() {
                return Err(e);
            }
            waits.hold_back();
        }
        self.backing.journal.flush()
    }
}
