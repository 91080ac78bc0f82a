//! Chunks that a session stores, or is about to store.
//!
//! Invariant: memory is bounded; what is forgotten is found by the index, or stored twice. Called by
//! the chunk map.

use super::{FingerprintSet, Quarantine, lock};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use units::Fingerprint;

/// Fingerprints of this session in one generation of the recent set; two generations are kept.
const RECENT_MAX: usize = 500_000;

#[derive(Default)]
struct Recent {
    young: FingerprintSet,
    old: FingerprintSet,
}

/// Chunks that one session stores or is about to store. Private to it: what another session has
/// claimed may never be stored.
pub(crate) struct Claims {
    shards: Vec<Mutex<Recent>>,
    /// The quarantine as it was when they were made.
    of: AtomicU64,
}

impl Default for Claims {
    fn default() -> Self {
        Self {
            shards: (0..16).map(|_| Mutex::default()).collect(),
            of: AtomicU64::new(0),
        }
    }
}

impl Claims {
    fn shard(&self, fingerprint: &Fingerprint) -> MutexGuard<'_, Recent> {
        let shard = usize::from(fingerprint.0[31]) % self.shards.len();
        lock(self.shards.get(shard).unwrap_or(&self.shards[0]))
    }

    /// Forgets all when a region was set aside since: what this session stored may lie there.
    pub(super) fn renew(&self, quarantine: &Quarantine) {
        let now = quarantine.times_added();
        if self.of.load(Ordering::Relaxed) != now && self.of.swap(now, Ordering::Relaxed) != now {
            self.shards
                .iter()
                .for_each(|shard| *lock(shard) = Recent::default());
        }
    }

    /// True when this session stores the chunk.
    pub fn holds(&self, fingerprint: &Fingerprint) -> bool {
        let recent = self.shard(fingerprint);
        recent.young.contains(fingerprint) || recent.old.contains(fingerprint)
    }

    /// True when this call was the first to claim the chunk.
    pub(super) fn add(&self, fingerprint: &Fingerprint) -> bool {
        let mut recent = self.shard(fingerprint);
        if recent.young.len() >= RECENT_MAX / self.shards.len() {
            recent.old = std::mem::take(&mut recent.young);
        }
        recent.young.insert(*fingerprint)
    }
}
