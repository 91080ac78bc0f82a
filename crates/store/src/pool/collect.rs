//! What the collector needs of a pool.
//!
//! Invariant: nothing here decides; who calls it has proven what it may do. Called by the collector.

use super::{Pool, Purpose};
use crate::chunk_map::ChunkMap;
use crate::container::ContainerReader;
use crate::error::{Result, StoreError, StoreErrorKind};
use crate::superblock::forget_roots_below;
use format::root::RootRecord;
use media::Room;
use std::sync::{Arc, PoisonError};
use units::Generation;

impl Pool {
    pub(crate) fn is_writable(&self) -> bool {
        self.lock.is_some()
    }

    pub(crate) fn chunks(&self) -> &Arc<ChunkMap> {
        &self.chunks
    }

    pub(crate) fn containers(&self) -> &Arc<ContainerReader> {
        &self.containers
    }

    /// The newest commit, its number and its record.
    pub(crate) fn newest(&self) -> (Generation, RootRecord) {
        let head = self.head();
        (head.generation, head.record.clone())
    }

    /// The oldest commit that somebody holds, in this process or as a reader in another one.
    pub(crate) fn held_oldest(&self) -> Option<Generation> {
        let readers = self.readers();
        let read = readers.iter().map(|reader| reader.generation);
        read.chain(self.holds.oldest()).min()
    }

    /// True when volumes are open over this pool and have written.
    pub(crate) fn has_open_volumes(&self) -> bool {
        let head = self.head();
        let is_open = |purpose: Purpose| head.writers[purpose as usize].session.strong_count() > 0;
        is_open(Purpose::Volumes) || is_open(Purpose::Direct)
    }

    /// A token for the only collector; `Invalid` while there is another one.
    pub(crate) fn collect_alone(&self) -> Result<Arc<()>> {
        let mut collecting = self
            .collecting
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if collecting.strong_count() > 0 {
            let why = "space is being collected already";
            return Err(StoreError::new(StoreErrorKind::Invalid, why));
        }
        let token = Arc::new(());
        *collecting = Arc::downgrade(&token);
        Ok(token)
    }

    /// Removes the commits before this one, durable on return: a pool is never rewound to them.
    pub(crate) fn forget_roots_below(&self, generation: Generation) -> Result<()> {
        forget_roots_below(&self.media, generation)
    }

    /// How much room the pool's disk has; `None`: nobody knows.
    pub fn room(&self) -> Option<Room> {
        self.media.disk.room()
    }

    pub(crate) fn delete_blob(&self, name: &str) -> Result<()> {
        self.replacing.is_going(name);
        Ok(self.media.blobs.delete(name)?)
    }
}
