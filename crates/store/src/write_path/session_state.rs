//! What the lanes of a session share.
//!
//! Invariant: container numbers are given once; what was put is kept until a commit names it. Made by the
//! session, called by its lanes.

use chunk_store::catalog::InventoryEntry;
use chunk_store::chunk_map::{ChunkMap, Claims};
use chunk_store::container::ContainerBuilder;
use chunk_store::superblock::MasterKey;
use chunking::FingerprintKey;
use format::config::{Config, FEATURE_INCOMPAT_X86};
use format::container::ContainerClass;
use media::{Media, Need};
use parking_lot::Mutex;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use units::{ContainerId, Generation, WriterId};

/// What a session did so far.
#[derive(Default)]
pub(super) struct Counters {
    pub logical_bytes: AtomicU64,
    pub new_bytes: AtomicU64,
    pub chunks_new: AtomicU64,
    pub chunks_known: AtomicU64,
    pub stored_bytes: AtomicU64,
}

/// What lanes share.
pub(super) struct Shared {
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
    /// Chunks are gone that others may have deduplicated against.
    pub lost_chunks: AtomicBool,
    /// Dropped with the last lane: tells the pool that the session is over.
    pub _token: Arc<dyn Any + Send + Sync>,
}

impl Shared {
    pub fn chunk_bytes_average(&self) -> usize {
        self.config.chunk_bytes_average as usize
    }

    /// What puts may take of the reserve.
    pub fn need(&self) -> Need {
        *self.need.lock()
    }

    /// Every reader of the pool knows the x86 branch filter.
    pub fn may_filter(&self) -> bool {
        self.config.features_incompat & FEATURE_INCOMPAT_X86 != 0
    }

    /// A lane was dropped and not taken back, or a container could not be put: nothing of this session can be
    /// committed.
    pub fn lose_chunks(&self) {
        self.lost_chunks.store(true, Ordering::Relaxed);
    }

    pub fn new_container(&self, class: ContainerClass, capacity: usize) -> ContainerBuilder {
        let sequence = self.next_sequence.fetch_add(1, Ordering::Relaxed);
        ContainerBuilder::new(
            self.config.pool,
            ContainerId::new(self.writer, sequence),
            class,
            self.generation,
            self.config.seal,
            &self.master,
            &*self.media.random,
            self.media.blobs.buffer(),
            capacity,
            self.parity_percent,
        )
    }

    /// A container was put: the next commit names it.
    pub fn finished(&self, container: InventoryEntry) {
        self.counts
            .stored_bytes
            .fetch_add(container.blob_bytes, Ordering::Relaxed);
        self.finished.lock().push(container);
    }
}
