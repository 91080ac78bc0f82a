//! Shortens fingerprints to the bits that the cache compares. The clean side calls this.
//!
//! Invariant: 88 to 92 bits are compared: 4 to 8 choose the shard, 44 are in the table's word, 40
//! more in the frame. Fingerprints are keyed, so only the key's owner could search for two that
//! agree. Among 2^35 chunks (100 TiB of 4 KiB) some pair agrees with a probability of 2^69 / 2^88,
//! one in half a million pools. That does harm only if one of the two is read while the other is in
//! memory. Identity takes 7 bytes in the frame and at most 8.9 in the table.

use crate::policy::Heat;
use units::{Fingerprint, IoClass};

/// Bits of the hash that a frame keeps to find its word again.
pub(super) const HOME_BITS: u32 = 16;
/// Key in a frame: those bits, and forty that are not in the hash.
pub(super) type Key = [u8; 7];

/// Compared bits of a fingerprint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    pub shard: usize,
    pub(super) hash: u64,
    pub(super) key: Key,
}

impl Identity {
    /// Computes the identity for this number of shards.
    pub fn of(fingerprint: &Fingerprint, shards: usize) -> Self {
        let [.., a, b, c, d, e, f, g, h, i, j, k, l, m, shard] = fingerprint.0;
        Self {
            shard: usize::from(shard) % shards.max(1),
            hash: u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            key: [a, b, i, j, k, l, m],
        }
    }

    /// Returns the initial heat of a chunk of this class and size, for the policy.
    pub fn heat(&self, class: IoClass, bytes: usize) -> Heat {
        heat_of(&self.key, class, bytes)
    }
}

/// Returns a hash that agrees with the content's in its home bits.
pub(super) fn home_of(key: &Key) -> u64 {
    let [a, b, ..] = *key;
    u64::from_be_bytes([a, b, 0, 0, 0, 0, 0, 0])
}

pub(super) fn heat_of(key: &Key, class: IoClass, bytes: usize) -> Heat {
    let [a, b, c, d, e, f, g] = *key;
    Heat {
        hits: 0,
        bytes: bytes as u32,
        identity: u64::from_be_bytes([0, a, b, c, d, e, f, g]),
        class,
    }
}
