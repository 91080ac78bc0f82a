//! Secrets in memory: a user's password or recovery key, and the master key. Code that seals, opens
//! or fingerprints calls this.
//!
//! Invariant: both are wiped when their last owner drops them. Neither is ever printed.

use chunking::{FingerprintKey, SealKey, derive_key};
use format::config::Seal;
use std::sync::Arc;
use zeroize::{Zeroize, Zeroizing};

/// Secret that opens a key slot.
#[derive(Clone, PartialEq, Eq)]
pub enum SecretKey {
    /// A password, any bytes.
    Password(Vec<u8>),
    /// The 256 random bits of a recovery key.
    Recovery([u8; 32]),
}

impl Drop for SecretKey {
    fn drop(&mut self) {
        match self {
            Self::Password(bytes) => bytes.zeroize(),
            Self::Recovery(bytes) => bytes.zeroize(),
        }
    }
}

/// A page of its own, so that locking and unlocking it affects nothing else.
#[repr(C, align(4096))]
struct Page {
    key: [u8; 32],
    _rest: [u8; 4064],
}

/// A key in a page that is not swapped out, where the system allows it. It is wiped on drop.
struct LockedKey {
    _lock: Option<region::LockGuard>,
    page: Box<Page>,
}

impl Drop for LockedKey {
    fn drop(&mut self) {
        // Fields are dropped after this, so the page is wiped before it is unlocked.
        self.page.key.zeroize();
    }
}

/// The secret from which all keys derive. Clones share its memory.
#[derive(Clone)]
pub struct MasterKey(Arc<LockedKey>);

impl MasterKey {
    /// Wraps 32 secret bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        let bytes = Zeroizing::new(bytes);
        let mut page = Box::new(Page {
            key: [0; 32],
            _rest: [0; 4064],
        });
        // Lock before the key is in the page. If the user's limit forbids it, the page stays
        // unlocked.
        let lock = region::lock(&raw const *page, size_of::<Page>()).ok();
        page.key = *bytes;
        Self(Arc::new(LockedKey { _lock: lock, page }))
    }

    /// Returns the bytes, for wrapping.
    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0.page.key
    }

    /// Derives the key of chunk fingerprints.
    pub fn fingerprint_key(&self) -> FingerprintKey {
        FingerprintKey::new(derive_key(
            "Quintet 2026-11 chunk fingerprints",
            self.bytes(),
        ))
    }

    /// Derives the key of root bodies. Their nonces are random.
    pub fn root_key(&self) -> SealKey {
        let key = Zeroizing::new(derive_key("Quintet 2026-11 root bodies", self.bytes()));
        SealKey::new(&key)
    }

    /// Derives the key of the payloads of the container with this salt. The nonce is the region
    /// number. Returns `None` if the pool is not sealed.
    pub fn container_key(&self, seal: Seal, salt: &[u8; 32]) -> Option<SealKey> {
        self.salted("Quintet 2026-11 container payloads", seal, salt)
    }

    /// Derives the key of the records of a journal slot's use with this salt. The nonce is the
    /// position. Returns `None` if the pool is not sealed.
    pub fn journal_key(&self, seal: Seal, salt: &[u8; 32]) -> Option<SealKey> {
        self.salted("Quintet 2026-11 journal records", seal, salt)
    }

    /// Derives the key of the cache blocks of one use of the fast tier. The nonce is the block's
    /// number in that use and the offset. Returns `None` if the pool is not sealed.
    pub fn tier_key(&self, seal: Seal, salt: &[u8; 32]) -> Option<SealKey> {
        self.salted("Quintet 2026-11 fast tier", seal, salt)
    }

    fn salted(&self, context: &'static str, seal: Seal, salt: &[u8; 32]) -> Option<SealKey> {
        if seal == Seal::None {
            return None;
        }
        let mut material = Zeroizing::new([0; 64]);
        material[..32].copy_from_slice(self.bytes());
        material[32..].copy_from_slice(salt);
        Some(SealKey::new(&Zeroizing::new(derive_key(
            context, &*material,
        ))))
    }
}
