//! What the collector needs of a pool.
//!
//! Invariant: nothing here decides; who calls it has proven what it may do. Called by the collector.

use super::{Pool, Purpose};
use crate::recovery::WRITERS;
use crate::write_path::{Base, Committed};
use chunk_store::chunk_map::ChunkMap;
use chunk_store::container::{ContainerReader, container_name};
use chunk_store::superblock::forget_roots_below;
use chunk_store::{Result, StoreError, StoreErrorKind};
use format::root::RootRecord;
use media::{Reserved, Room};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use units::{ContainerId, Generation};

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
    pub fn held_oldest(&self) -> Option<Generation> {
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
        let mut collecting = self.collecting.lock();
        if collecting.strong_count() > 0 {
            let why = "space is being collected already";
            return Err(StoreError::new(StoreErrorKind::Invalid, why));
        }
        let token = Arc::new(());
        *collecting = Arc::downgrade(&token);
        Ok(token)
    }

    /// Removes the commits before this one, durable on return: a pool is never rewound to them.
    pub fn forget_roots_below(&self, generation: Generation) -> Result<()> {
        forget_roots_below(&self.media, generation)
    }

    /// How much room the pool's disk has; `None`: nobody knows.
    pub fn room(&self) -> Option<Room> {
        self.media.disk.room()
    }

    /// How much room there is, and how much of it only recovery and collection may use; `None`:
    /// nobody knows.
    pub fn reserved(&self) -> Option<Reserved> {
        self.media.blobs.reserved()
    }

    /// Makes the reserve again as far as there is room; nothing of a pool that was opened for
    /// reading.
    pub fn keep_reserve(&self) {
        if self.is_writable()
            && let Some(reserve) = self.media.blobs.reserve()
        {
            reserve.restore();
        }
    }

    /// The number that the next container of a writer gets.
    pub(crate) fn next_sequence(&self, purpose: Purpose) -> u64 {
        let head = self.head();
        let next = &head.writers[purpose as usize].next_sequence;
        next.load(Ordering::Relaxed)
    }

    /// A commit of the collector, whose containers are those from this number on: they go with it
    /// when it fails.
    pub(crate) fn commit_collected(
        &self,
        first: u64,
        commit: impl FnOnce(Base) -> Result<Committed>,
    ) -> Result<Committed> {
        let (generation, _) = self.newest();
        let committed = self.commit_with(Purpose::Collect, commit);
        if committed.is_err() && self.is_still_at(generation) {
            self.remove_uncommitted(Purpose::Collect, first);
        }
        committed
    }

    /// Removes the containers of a writer from this number on, which no commit has entered and none
    /// will: its session has ended. Whoever found a chunk there finds it where it was before.
    pub(crate) fn remove_uncommitted(&self, purpose: Purpose, first: u64) {
        let writer = WRITERS[purpose as usize];
        let numbers = first..self.next_sequence(purpose);
        let ids: Vec<_> = numbers.map(|n| ContainerId::new(writer, n)).collect();
        let quarantine = &self.chunks.quarantine;
        for id in &ids {
            quarantine.retired.note_going(*id);
            // What stays is found by the next session, as after a crash.
            let _ = self.media.blobs.discard(&container_name(*id));
            quarantine.forget(*id);
        }
        self.chunks.index.forget(ids);
    }

    pub(crate) fn delete_blob(&self, name: &str) -> Result<()> {
        self.replacing.is_going(name);
        Ok(self.media.blobs.delete(name)?)
    }
}
