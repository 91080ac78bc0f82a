//! Chunks that a session stores, or is about to store.
//!
//! Invariant: memory is bounded; what is forgotten is found by the index, or stored twice. Called by
//! the chunk map.

use super::{FingerprintSet, Quarantine};
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicU64, Ordering};
use units::Fingerprint;

/// Parts, each under its own lock.
const SHARDS: usize = 16;
/// Slots of one generation in one shard; two generations are kept. More serve nobody: what was
/// stored so long ago the index knows.
const SLOTS_MAX: usize = 1 << 15;
/// Fewer are not worth their tables.
const SLOTS_MIN: usize = 1 << 6;
/// Memory of a slot: a fingerprint and a byte of control.
const SLOT_BYTES: usize = size_of::<Fingerprint>() + 1;

#[derive(Default)]
struct Recent {
    young: FingerprintSet,
    old: FingerprintSet,
}

/// Chunks that one session stores or is about to store. Private to it: what another session has
/// claimed may never be stored.
pub struct Claims {
    shards: Vec<Mutex<Recent>>,
    /// Fingerprints of one generation in one shard.
    generation_max: usize,
    /// The quarantine as it was when they were made.
    of: AtomicU64,
}

impl Claims {
    /// Takes at most about `bytes_max`.
    pub(super) fn new(bytes_max: usize) -> Self {
        let slots = (bytes_max / (2 * SHARDS * SLOT_BYTES)).max(1);
        // Tables double, and grow when they are seven eighths full.
        let slots = (1 << slots.ilog2()).clamp(SLOTS_MIN, SLOTS_MAX);
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            generation_max: slots / 8 * 7,
            of: AtomicU64::new(0),
        }
    }

    /// Memory that they take now, bytes.
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

    /// Forgets all when a region was set aside since: what this session stored may lie there.
    pub(super) fn renew(&self, quarantine: &Quarantine) {
        let now = quarantine.times_added();
        if self.of.load(Ordering::Relaxed) != now && self.of.swap(now, Ordering::Relaxed) != now {
            self.shards
                .iter()
                .for_each(|shard| *shard.lock() = Recent::default());
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
        if recent.young.len() >= self.generation_max {
            // The table of the oldest takes the next ones.
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
