//! Claims: chunks that a session has stored or is about to store. The chunk map calls this.
//!
//! Invariant: memory is bounded. A forgotten claim costs at most a lookup in the index or a
//! duplicate.

use super::{FingerprintSet, Quarantine};
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicU64, Ordering};
use units::Fingerprint;

/// Number of shards, each with its own lock.
const SHARDS: usize = 16;
/// Maximum number of slots of one generation in one shard; two generations are kept. More would be
/// useless: the index knows chunks that were stored so long ago.
const SLOTS_MAX: usize = 1 << 15;
/// Minimum number of slots: below it the tables' overhead dominates.
const SLOTS_MIN: usize = 1 << 6;
/// Memory of a slot: a fingerprint and a control byte.
const SLOT_BYTES: usize = size_of::<Fingerprint>() + 1;

#[derive(Default)]
struct Recent {
    young: FingerprintSet,
    old: FingerprintSet,
}

/// Claims of one session. They are private to it: another session may fail and never store its
/// claimed chunks.
pub struct Claims {
    shards: Vec<Mutex<Recent>>,
    /// Maximum number of fingerprints of one generation in one shard.
    generation_max: usize,
    /// [`Quarantine::times_added`] when the claims were last renewed.
    of: AtomicU64,
}

impl Claims {
    /// Creates claims that use at most about `bytes_max` bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        let slots = (bytes_max / (2 * SHARDS * SLOT_BYTES)).max(1);
        // Hash tables double, and grow at seven eighths.
        let slots = (1 << slots.ilog2()).clamp(SLOTS_MIN, SLOTS_MAX);
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            generation_max: slots / 8 * 7,
            of: AtomicU64::new(0),
        }
    }

    /// Returns the memory used now, bytes.
    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> usize {
        let slots = |set: &FingerprintSet| (set.capacity() / 7 * 8) * SLOT_BYTES;
        let of = |shard: &Mutex<Recent>| {
            let recent = shard.lock();
            slots(&recent.young) + slots(&recent.old)
        };
        self.shards.iter().map(of).sum()
    }

    fn shard(&self, fingerprint: &Fingerprint) -> MutexGuard<'_, Recent> {
        let shard = usize::from(fingerprint.0[31]) % self.shards.len();
        self.shards.get(shard).unwrap_or(&self.shards[0]).lock()
    }

    /// Drops all claims if a region was put into quarantine or a container retired since: the
    /// session's chunks may be there.
    pub(super) fn renew(&self, quarantine: &Quarantine) {
        let now = quarantine.times_added();
        if self.of.load(Ordering::Relaxed) != now && self.of.swap(now, Ordering::Relaxed) != now {
            self.shards
                .iter()
                .for_each(|shard| *shard.lock() = Recent::default());
        }
    }

    /// Returns true if this session has claimed the chunk.
    pub fn holds(&self, fingerprint: &Fingerprint) -> bool {
        let recent = self.shard(fingerprint);
        recent.young.contains(fingerprint) || recent.old.contains(fingerprint)
    }

    /// Claims a chunk. Returns true if it was not claimed before.
    pub(super) fn add(&self, fingerprint: &Fingerprint) -> bool {
        let mut recent = self.shard(fingerprint);
        if recent.young.len() >= self.generation_max {
            // Reuse the table of the oldest generation for the next one.
            let mut oldest = std::mem::take(&mut recent.old);
            oldest.clear();
            recent.old = std::mem::replace(&mut recent.young, oldest);
        }
        !recent.old.contains(fingerprint) && recent.young.insert(*fingerprint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(n: u64) -> Fingerprint {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&n.to_le_bytes());
        bytes[31] = n as u8;
        Fingerprint(bytes)
    }

    #[test]
    fn many_claims_take_what_they_were_given_and_the_newest_are_held() {
        for bytes_max in [256 << 10, 1 << 20, 6 << 20] {
            let claims = Claims::new(bytes_max);
            let count = 300_000;
            for n in 0..count {
                assert!(claims.add(&fingerprint(n)));
                assert!(!claims.add(&fingerprint(n)));
            }
            let taken = claims.memory_bytes();
            assert!(taken <= bytes_max && taken * 4 > bytes_max, "{taken}");
            let held = (0..count)
                .filter(|n| claims.holds(&fingerprint(*n)))
                .count();
            assert!(held * SLOT_BYTES * 5 > bytes_max, "{held}");
            assert!(claims.holds(&fingerprint(count - 1)));
        }
    }
}
