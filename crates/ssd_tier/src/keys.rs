//! The pool's secrets as the tier needs them, and what closes and opens its bytes. `block` and
//! `scan` call this.
//!
//! Invariant: a (key, nonce) pair closes at most one payload. The key derives from a salt that is
//! drawn for each use of the tier, the nonce is the block's sequence number in that use and the
//! offset in the block.

use chunking::SealKey;
use format::config::Seal;
use format::tier::{TRAILER_BYTES, TierSeed};
use units::{Fingerprint, PoolId};

/// Secrets of a pool.
pub trait PoolKeys: Send + Sync {
    /// Returns the pool.
    fn pool(&self) -> PoolId;

    /// Returns the fingerprint of a chunk's bytes.
    fn fingerprint(&self, chunk: &[u8]) -> Fingerprint;

    /// Derives the key of all blocks with this salt. Returns `None` if the pool is not sealed.
    fn block_key(&self, salt: &[u8; 32]) -> Option<SealKey>;
}

/// One use of the tier: from opening it to closing it, by one process.
pub(crate) struct Use {
    pub salt: [u8; 32],
    seed: TierSeed,
    key: Option<SealKey>,
}

/// Place of a payload: sequence number of its block, offset in it (0: the directory).
#[derive(Clone, Copy)]
pub(crate) struct At {
    pub sequence: u64,
    pub offset: u32,
}

impl At {
    fn nonce(self) -> [u8; 12] {
        let mut nonce = [0; 12];
        let bytes = self.sequence.to_le_bytes().into_iter();
        let bytes = bytes.chain(self.offset.to_le_bytes());
        nonce.iter_mut().zip(bytes).for_each(|(to, b)| *to = b);
        nonce
    }
}

impl Use {
    pub fn new(keys: &dyn PoolKeys, salt: [u8; 32]) -> Self {
        Self {
            seed: TierSeed::new(keys.pool(), &salt),
            key: keys.block_key(&salt),
            salt,
        }
    }

    pub fn seal(&self) -> Seal {
        match self.key {
            Some(_) => Seal::Aes256Gcm,
            None => Seal::None,
        }
    }

    /// Seals `payload` in place, if the pool is sealed, and returns its trailer.
    pub fn close(&self, at: At, bound: &[u8], payload: &mut [u8]) -> [u8; TRAILER_BYTES] {
        match &self.key {
            Some(key) => key.seal_in_place(at.nonce(), bound, payload),
            None => self.seed.trailer(bound, payload),
        }
    }

    /// Verifies and opens in place a payload with its trailer behind it. Returns false, and leaves
    /// garbage, when bytes, place or pool are wrong.
    pub fn open(&self, at: At, bound: &[u8], closed: &mut [u8]) -> bool {
        if let Some(key) = &self.key {
            return key.open_in_place(at.nonce(), bound, closed).is_some();
        }
        match closed.split_last_chunk::<TRAILER_BYTES>() {
            Some((payload, trailer)) => self.seed.trailer(bound, payload) == *trailer,
            None => false,
        }
    }
}

const _: () = assert!(chunking::TAG_BYTES == TRAILER_BYTES);
