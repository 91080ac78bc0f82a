//! The storage of an open pool, which every part of it uses: files, settings, keys, and the caches
//! over them. The pool makes one when it is opened.
//!
//! Invariant: it never changes, except for features that an upgrade adds.

use chunk_store::catalog::{Forgotten, TrashedContainer, holds_key, read_trash};
use chunk_store::chunk_map::ChunkMap;
use chunk_store::container::ContainerReader;
use chunk_store::superblock::MasterKey;
use chunk_store::{Result, StoreError, StoreErrorKind};
use format::config::{Config, Seal};
use format::map_node::MapNode;
use media::{DiskLock, Media};
use read_path::Reader;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{Fingerprint, PoolId};

/// See the module's head.
pub(super) struct PoolStorage {
    pub media: Media,
    /// As it was when the pool was opened; see [`PoolStorage::config_now`].
    pub config: Config,
    pub master: MasterKey,
    pub containers: Arc<ContainerReader>,
    pub chunks: Arc<ChunkMap>,
    pub reader: Arc<Reader>,
    /// `features_incompat` with those that were added since.
    pub features: AtomicU64,
    /// The same of `features_ro_compat`.
    pub features_ro: AtomicU64,
    /// The pool's lock, if this process writes.
    pub lock: Option<DiskLock>,
}

impl PoolStorage {
    pub fn id(&self) -> PoolId {
        self.config.pool
    }

    pub fn sealing(&self) -> (&MasterKey, Seal) {
        (&self.master, self.config.seal)
    }

    pub fn is_writable(&self) -> bool {
        self.lock.is_some()
    }

    /// Fails with `Invalid` in a pool that was opened for reading.
    pub fn check_writable(&self) -> Result<()> {
        match self.is_writable() {
            true => Ok(()),
            false => {
                let why = "the pool is open for reading only";
                Err(StoreError::new(StoreErrorKind::Invalid, why))
            }
        }
    }

    /// Returns the settings with the features that were added since the pool was opened.
    pub fn config_now(&self) -> Config {
        Config {
            features_incompat: self.features.load(Ordering::Relaxed),
            features_ro_compat: self.features_ro.load(Ordering::Relaxed),
            ..self.config.clone()
        }
    }

    /// Reads a node of the catalog.
    pub fn map_node(&self) -> impl Fn(&Fingerprint) -> Result<MapNode> {
        |f| self.reader.map_node(f)
    }

    /// Returns true if the catalog with this root has an entry with this key.
    pub fn has_key(&self, catalog: Option<Fingerprint>, key: &[u8]) -> Result<bool> {
        holds_key(catalog, key, &mut self.map_node())
    }

    /// Returns the forgotten snapshots, oldest first, and the containers in the trash.
    pub fn trash_of(
        &self,
        catalog: Option<Fingerprint>,
    ) -> Result<(Vec<Forgotten>, Vec<TrashedContainer>)> {
        read_trash(catalog, &mut self.map_node())
    }
}
