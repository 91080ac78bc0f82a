//! The staged chunks of a shard, by fingerprint. `index` calls this.
//!
//! Invariant: a fingerprint is a keyed hash, so its first bytes are as good as any hash of it. Two
//! chunks whose first eight bytes agree are not staged together.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use units::Fingerprint;

/// Takes a word as its own hash.
#[derive(Default)]
struct Word(u64);

impl Hasher for Word {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, word: u64) {
        // The lowest bits are those of the shard.
        self.0 = word.rotate_right(6);
    }
}

/// See the module's head.
#[derive(Default)]
pub(super) struct StagedMap {
    chunks: HashMap<u64, (Fingerprint, Arc<[u8]>), BuildHasherDefault<Word>>,
}

impl StagedMap {
    pub fn get(&self, fingerprint: &Fingerprint) -> Option<&Arc<[u8]>> {
        if self.chunks.is_empty() {
            return None;
        }
        let (found, bytes) = self.chunks.get(&fingerprint.bucket_bits())?;
        (found == fingerprint).then_some(bytes)
    }

    /// Adds a chunk. Returns false if there is one.
    pub fn insert(&mut self, fingerprint: &Fingerprint, bytes: Arc<[u8]>) -> bool {
        let is_new = !self.chunks.contains_key(&fingerprint.bucket_bits());
        if is_new {
            let chunk = (*fingerprint, bytes);
            self.chunks.insert(fingerprint.bucket_bits(), chunk);
        }
        is_new
    }

    /// Removes a chunk. Returns false if it is not here.
    pub fn remove(&mut self, fingerprint: &Fingerprint) -> bool {
        self.get(fingerprint).is_some() && self.chunks.remove(&fingerprint.bucket_bits()).is_some()
    }

    pub fn clear(&mut self) {
        self.chunks = HashMap::default();
    }
}
