//! Access of garbage collection to a pool.
//!
//! Invariant: nothing here decides. The caller has proven that it may do what it asks for.

use super::{Pool, Purpose};
use crate::recovery::WRITERS;
use crate::write_path::{Base, Committed};
use chunk_store::chunk_map::ChunkMap;
use chunk_store::container::{ContainerReader, container_name};
use chunk_store::superblock::forget_roots_below;
use chunk_store::{Result, StoreError, StoreErrorKind};
use media::{Reserved, Room};
use std::sync::Arc;
use units::{ContainerId, Generation};

impl Pool {
    /// Fails with `Invalid` in a pool that was opened for reading.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.storage.check_writable()
    }

    pub(crate) fn chunks(&self) -> &Arc<ChunkMap> {
        &self.storage.chunks
    }

    pub(crate) fn containers(&self) -> &Arc<ContainerReader> {
        &self.storage.containers
    }

    /// Returns the oldest generation with a hold, in this process or of a reader in another one.
    pub fn held_oldest(&self) -> Option<Generation> {
        let readers = self.holders.readers();
        let read = readers.iter().map(|reader| reader.generation);
        read.chain(self.commits.holds.oldest()).min()
    }

    /// Returns a token for the only garbage collection run. Fails with `Invalid` while there is
    /// another one.
    pub(crate) fn collect_alone(&self) -> Result<Arc<()>> {
        let mut collecting = self.collecting.lock();
        if collecting.strong_count() > 0 {
            let why = "a gc is running already (see quintet status)";
            return Err(StoreError::new(StoreErrorKind::Invalid, why));
        }
        let token = Arc::new(());
        *collecting = Arc::downgrade(&token);
        Ok(token)
    }

    /// Removes the roots below this generation, durable on return. The pool can then not be rewound
    /// to them.
    pub fn forget_roots_below(&self, generation: Generation) -> Result<()> {
        forget_roots_below(&self.storage.media, generation)
    }

    /// Returns the space of the pool's disk, or `None` if it is unknown.
    pub fn room(&self) -> Option<Room> {
        self.storage.media.disk.room()
    }

    /// Returns the free space, and how much of it only recovery and garbage collection may use.
    /// `None` if it is unknown.
    pub fn reserved(&self) -> Option<Reserved> {
        self.storage.media.blobs.reserved()
    }

    /// Restores the reserve as far as space allows. Does nothing in a pool that was opened for
    /// reading.
    pub fn keep_reserve(&self) {
        if self.storage.is_writable()
            && let Some(reserve) = self.storage.media.blobs.reserve()
        {
            reserve.restore();
        }
    }

    /// Makes a commit of garbage collection whose containers have numbers from `first` on. They are
    /// removed if it fails.
    pub(crate) fn commit_collected(
        &self,
        first: u64,
        commit: impl FnOnce(Base) -> Result<Committed>,
    ) -> Result<Committed> {
        let (generation, _) = self.commits.newest();
        let committed = self.commit_with(Purpose::Collect, commit);
        if committed.is_err() && self.commits.is_still_at(generation) {
            self.remove_uncommitted(Purpose::Collect, first);
        }
        committed
    }

    /// Removes a writer's containers with numbers from `first` on. The caller knows that no commit
    /// has entered them and none will: their session has ended. A reader that found a chunk there
    /// finds its old place again.
    pub(crate) fn remove_uncommitted(&self, purpose: Purpose, first: u64) {
        let writer = WRITERS[purpose as usize];
        let numbers = first..self.commits.next_sequence(purpose);
        let ids: Vec<_> = numbers.map(|n| ContainerId::new(writer, n)).collect();
        let quarantine = &self.storage.chunks.quarantine;
        for id in &ids {
            quarantine.retired.note_going(*id);
            // If it remains, the next session finds it as after a crash.
            let _ = self.storage.media.blobs.discard(&container_name(*id));
            quarantine.forget(*id);
        }
        self.storage.chunks.index.forget(ids);
    }

    pub(crate) fn delete_blob(&self, name: &str) -> Result<()> {
        self.health.replacing.is_going(name);
        Ok(self.storage.media.blobs.delete(name)?)
    }
}
