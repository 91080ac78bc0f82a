//! Gives a pool a fast tier, and a copy of its index beside it. A server calls this once, when it
//! opens the pool.
//!
//! Invariant: the tier is sealed as the pool is; the index has keyed fingerprints and places only.
//! Both are named after the pool: those of two pools can share a directory.

use super::Pool;
use chunk_store::index::IndexCopyStatus;
use chunk_store::superblock::MasterKey;
use chunking::{FingerprintKey, SealKey};
use format::config::Seal;
use media::Disk;
use ssd_tier::{PoolKeys, Tier, TierOptions, TierSettings};
use std::sync::Arc;
use units::{Fingerprint, PoolId, UnixNanos};

struct Keys {
    pool: PoolId,
    seal: Seal,
    master: MasterKey,
    fingerprints: FingerprintKey,
}

impl PoolKeys for Keys {
    fn pool(&self) -> PoolId {
        self.pool
    }

    fn fingerprint(&self, chunk: &[u8]) -> Fingerprint {
        self.fingerprints.fingerprint(chunk)
    }

    fn block_key(&self, salt: &[u8; 32]) -> Option<SealKey> {
        self.master.tier_key(self.seal, salt)
    }
}

impl Pool {
    /// Caches chunks in a file on `disk`, which is faster than the pool's. Returns the tier: the
    /// caller steps it. Does no I/O, so it cannot fail. Only the first call has an effect.
    pub fn use_fast_tier(
        &self,
        disk: Arc<dyn Disk>,
        options: TierOptions,
        settings: TierSettings,
    ) -> Arc<Tier> {
        let pool = self.storage.id();
        let keys = Keys {
            pool,
            seal: self.storage.config.seal,
            master: self.storage.master.clone(),
            fingerprints: self.storage.master.fingerprint_key(),
        };
        let name = format!("quintet-tier-{pool}");
        let random = Arc::clone(&self.storage.media.random);
        let tier = Tier::new(disk, &name, Arc::new(keys), random, options, settings);
        let tier = Arc::new(tier);
        self.storage.reader.set_fast_tier(&tier);
        // Another call may have been first.
        self.fast_tier().map_or(tier, Arc::clone)
    }

    /// Keeps a copy of the fingerprint index in a file on `disk`, which is faster than the pool's,
    /// of `bytes_max` at most. Does no I/O: [`step_fast_index`](Self::step_fast_index) fills it.
    /// The pool's own file stays complete, so a copy that is lost or damaged costs time only.
    pub fn use_fast_index(&self, disk: Arc<dyn Disk>, bytes_max: u64) {
        let name = format!("quintet-index-{}", self.storage.id());
        self.storage.chunks.index.use_copy(disk, name, bytes_max);
    }

    /// Copies up to `bytes` of the index. Returns true if there is more to copy.
    pub fn step_fast_index(&self, now: UnixNanos, bytes: u64) -> bool {
        self.storage.chunks.index.step_copy(now, bytes)
    }

    /// Makes the copy of the index count after a restart.
    pub fn finish_fast_index(&self, now: UnixNanos) {
        self.storage.chunks.index.finish_copy(now);
    }

    /// Returns how the copy of the index is, if there is to be one.
    pub fn fast_index(&self) -> Option<IndexCopyStatus> {
        self.storage.chunks.index.copy_status()
    }

    /// Returns the size of the index's file, bytes.
    pub fn index_bytes(&self) -> u64 {
        self.storage.chunks.index.counters().file_bytes
    }

    /// Returns the fast tier, if there is one.
    pub fn fast_tier(&self) -> Option<&Arc<Tier>> {
        self.storage.reader.fast_tier()
    }
}
