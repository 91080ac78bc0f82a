//! Gives a pool a fast tier. A server calls this once, when it opens the pool.
//!
//! Invariant: the tier is sealed as the pool is, and named after it: the tiers of two pools can
//! share a directory.

use super::Pool;
use chunk_store::superblock::MasterKey;
use chunking::{FingerprintKey, SealKey};
use format::config::Seal;
use media::Disk;
use ssd_tier::{PoolKeys, Tier, TierOptions, TierSettings};
use std::sync::Arc;
use units::{Fingerprint, PoolId};

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

    /// Returns the fast tier, if there is one.
    pub fn fast_tier(&self) -> Option<&Arc<Tier>> {
        self.storage.reader.fast_tier()
    }
}
