//! A pool for dry runs: open for writing, but its changes stay in memory and are dropped with it.
//! The dry runs of copy and repair call this.
//!
//! A dry run executes the code of the real run on it, so it cannot decide or count differently.
//!
//! Invariant: nothing below is created, written, renamed, locked or deleted. Reads return what the
//! real pool would return after the same writes, except payloads of new data containers, which are
//! dropped: only header, directory and footer are kept. Memory: about 100 bytes for each new chunk,
//! and the index's writes.

mod blobs;
mod files;
mod pages;

use super::{OpenMode, Pool, Unlocked};
use blobs::DryRunBlobs;
use chunk_store::Result;
use chunk_store::container::container_name;
use chunk_store::superblock::Notes;
use files::{DryRunDisk, DryRunLock};
use media::Media;
use std::sync::Arc;
use units::ContainerId;

impl Pool {
    /// Opens the pool once more, for writing, with all changes in memory. Takes no lock. `self`
    /// must stay open: it prevents the deletion of what both read.
    pub fn dry_run(&self, memory_bytes: usize) -> Result<Self> {
        let below = &self.storage.media;
        let blobs = Arc::new(DryRunBlobs::new(Arc::clone(&below.blobs)));
        let disk = DryRunDisk::new(Arc::clone(&below.disk), Arc::clone(&blobs));
        let media = Media {
            blobs,
            disk: Arc::new(disk),
            ..below.clone()
        };
        let unlocked = Unlocked {
            config: self.storage.config_now(),
            master: self.storage.master.clone(),
            opened_with: self.keys.opened_with().cloned(),
            notes: Notes::new(),
            watch: super::adopting::Watch::default(),
        };
        Self::open_unlocked(media, unlocked, OpenMode::Write, memory_bytes)
    }

    /// Leaves hints for the damage that a dry run on this pool found, as every reader does.
    pub fn note_damage_of(&self, dry_run_lock: &Self) {
        let known = self.storage.chunks.quarantine.places();
        let found = dry_run_lock.storage.chunks.quarantine.places();
        for place in found.into_iter().filter(|place| !known.contains(place)) {
            self.storage.chunks.put_in_quarantine(place);
        }
    }

    /// Returns true if [`Pool::dry_run`] made this pool: payloads of new data containers cannot be
    /// read.
    pub fn is_dry_run(&self) -> bool {
        self.dry_run_lock().is_some()
    }

    fn dry_run_lock(&self) -> Option<&DryRunLock> {
        self.storage.lock.as_ref()?.downcast_ref()
    }

    /// Returns true for a container of a dry run whose payload was dropped.
    pub(super) fn is_described_only(&self, id: ContainerId) -> bool {
        let dry_run_lock = self.dry_run_lock();
        dry_run_lock.is_some_and(|dry_run_lock| dry_run_lock.0.is_kept_in_part(&container_name(id)))
    }
}
