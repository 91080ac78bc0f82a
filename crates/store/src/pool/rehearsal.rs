//! Rehearsal: a pool open for writing whose changes stay in memory and go with it.
//!
//! A dry run runs the code of the real run on it, so it cannot decide or count otherwise.
//!
//! Invariant: nothing below is created, written, renamed, locked or deleted. What was stored reads
//! back as it would from the real pool, except payloads of new data containers, which are dropped:
//! of those only header, directory and footer are kept. Memory: about 100 bytes for each new chunk,
//! and what the index would write. Called by the dry runs of copy and repair.

mod blobs;
mod files;
mod pages;

use super::{OpenMode, Pool, Unlocked};
use blobs::RehearsedBlobs;
use chunk_store::Result;
use chunk_store::container::container_name;
use chunk_store::superblock::Notes;
use files::{RehearsedDisk, RehearsedLock};
use media::Media;
use std::sync::Arc;
use units::ContainerId;

impl Pool {
    /// Opens the pool once more, for writing, with all changes in memory. Takes no lock. `self` must
    /// stay open: it keeps what both read from being deleted.
    pub fn rehearse(&self, memory_bytes: usize) -> Result<Self> {
        let below = &self.media;
        let blobs = Arc::new(RehearsedBlobs::new(Arc::clone(&below.blobs)));
        let disk = RehearsedDisk::new(Arc::clone(&below.disk), Arc::clone(&blobs));
        let media = Media {
            blobs,
            disk: Arc::new(disk),
            ..below.clone()
        };
        let unlocked = Unlocked {
            config: self.config.clone(),
            master: self.master.clone(),
            opened_with: self.opened_with.clone(),
            notes: Notes::new(),
        };
        Self::open_unlocked(media, unlocked, OpenMode::Write, memory_bytes)
    }

    /// Leaves for the next writer what a rehearsal of this pool found damaged, as every reader does.
    pub fn note_damage_of(&self, rehearsal: &Self) {
        let known = self.chunks.quarantine.places();
        let found = rehearsal.chunks.quarantine.places();
        for place in found.into_iter().filter(|place| !known.contains(place)) {
            self.chunks.set_aside(place);
        }
    }

    /// True for one that [`Pool::rehearse`] made: payloads of new data containers cannot be read.
    pub fn is_rehearsal(&self) -> bool {
        self.rehearsed().is_some()
    }

    fn rehearsed(&self) -> Option<&RehearsedLock> {
        self.lock.as_ref()?.downcast_ref()
    }

    /// True for a container of a rehearsal that has no payload to look at.
    pub(super) fn is_described_only(&self, id: ContainerId) -> bool {
        let rehearsed = self.rehearsed();
        rehearsed.is_some_and(|rehearsed| rehearsed.0.is_kept_in_part(&container_name(id)))
    }
}
