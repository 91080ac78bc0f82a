//! State that the lanes of a session share. The session creates it; its lanes call it.
//!
//! Invariant: each container number is used once. Containers that were put stay listed until a
//! commit names them.

use chunk_store::catalog::InventoryEntry;
use chunk_store::chunk_map::{ChunkMap, Claims};
use chunk_store::container::{ContainerBuilder, ContainerSettings};
use chunk_store::superblock::MasterKey;
use chunking::FingerprintKey;
use format::config::{Config, FEATURE_INCOMPAT_PACKED, FEATURE_INCOMPAT_X86};
use format::container::ContainerClass;
use media::{Media, Need};
use parking_lot::Mutex;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use units::{ContainerId, Generation, WriterId};

/// Counters of a session.
#[derive(Default)]
pub(super) struct Counters {
    pub logical_bytes: AtomicU64,
    pub new_bytes: AtomicU64,
    pub chunks_new: AtomicU64,
    pub chunks_known: AtomicU64,
    pub stored_bytes: AtomicU64,
}

/// State that the lanes share.
pub(super) struct SessionState {
    pub media: Media,
    pub chunks: Arc<ChunkMap>,
    pub claims: Claims,
    pub fingerprints: FingerprintKey,
    pub counts: Counters,
    pub config: Config,
    pub master: MasterKey,
    pub writer: WriterId,
    pub generation: Generation,
    pub next_sequence: Arc<AtomicU64>,
    pub need: Mutex<Need>,
    pub parity_percent: u8,
    pub finished: Mutex<Vec<InventoryEntry>>,
    /// Chunks are lost that other lanes may have deduplicated against.
    pub lost_chunks: AtomicBool,
    /// Dropped with the last lane. Its drop shows the pool that the session is over.
    pub _token: Arc<dyn Any + Send + Sync>,
}

impl SessionState {
    pub fn chunk_bytes_average(&self) -> usize {
        self.config.chunk_bytes_average as usize
    }

    /// Returns how much of the reserve puts may use.
    pub fn need(&self) -> Need {
        *self.need.lock()
    }

    /// Returns true if the config requires every reader of the pool to know the x86 branch filter.
    pub fn may_filter(&self) -> bool {
        self.config.features_incompat & FEATURE_INCOMPAT_X86 != 0
    }

    /// Returns true if the config requires every reader to find regions that begin within sectors.
    pub fn packs(&self) -> bool {
        self.config.features_incompat & FEATURE_INCOMPAT_PACKED != 0
    }

    /// Makes this session unable to commit: a lane was dropped without being retired, or a
    /// container could not be put.
    pub fn lose_chunks(&self) {
        self.lost_chunks.store(true, Ordering::Relaxed);
    }

    pub fn new_container(&self, class: ContainerClass, capacity: usize) -> ContainerBuilder {
        let sequence = self.next_sequence.fetch_add(1, Ordering::Relaxed);
        let id = ContainerId::new(self.writer, sequence);
        let settings = ContainerSettings {
            pool: self.config.pool,
            seal: self.config.seal,
            master: &self.master,
            generation: self.generation,
            parity_percent: self.parity_percent,
            packs: self.packs(),
        };
        let (media, buffer) = (&self.media, self.media.blobs.buffer());
        settings.begin(id, class, &*media.random, buffer, capacity)
    }

    /// Lists a container that was put, for the next commit.
    pub fn finished(&self, container: InventoryEntry) {
        self.counts
            .stored_bytes
            .fetch_add(container.blob_bytes, Ordering::Relaxed);
        self.finished.lock().push(container);
    }
}
