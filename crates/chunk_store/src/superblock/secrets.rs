//! Secrets in memory: what a user proves to be allowed with, and the key that all others derive from.
//!
//! Invariant: both are wiped when the last who has them lets go; neither is ever printed. Called by
//! whoever seals, opens or names something.

use chunking::{FingerprintKey, SealKey, derive_key};
use format::config::Seal;
use std::sync::Arc;
use zeroize::{Zeroize, Zeroizing};

/// What a user proves to be allowed with.
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

/// A page of its own, so that locking and unlocking it concerns nothing else.
#[repr(C, align(4096))]
struct Page {
    key: [u8; 32],
    _rest: [u8; 4064],
}

/// A key in a page that is not swapped out, where the system allows it, and wiped at the end.
struct LockedKey {
    _lock: Option<region::LockGuard>,
    page: Box<Page>,
}

impl Drop for LockedKey {
    fn drop(&mut self) {
        // Fields go after this: the page is wiped before it is unlocked.
        self.page.key.zeroize();
    }
}

/// The one secret that all others derive from. Clones share it.
#[derive(Clone)]
pub struct MasterKey(Arc<LockedKey>);

impl MasterKey {
    /// From 32 secret bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        let bytes = Zeroizing::new(bytes);
        let mut page = Box::new(Page {
            key: [0; 32],
            _rest: [0; 4064],
        });
        // Before the key is in it. Users may lock little or nothing: then it is not locked.
        let lock = region::lock(&raw const *page, size_of::<Page>()).ok();
        page.key = *bytes;
        Self(Arc::new(LockedKey { _lock: lock, page }))
    }

    /// The bytes, to be wrapped.
    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0.page.key
    }

    /// Names of chunks.
    pub fn fingerprint_key(&self) -> FingerprintKey {
        FingerprintKey::new(derive_key(
            "Quintet 2026-11 chunk fingerprints",
            self.bytes(),
        ))
    }

    /// Bodies of roots; nonces are random.
    pub fn root_key(&self) -> SealKey {
        let key = Zeroizing::new(derive_key("Quintet 2026-11 root bodies", self.bytes()));
        SealKey::new(&key)
    }

    /// Payloads of the container with this salt; the nonce is the region number. `None` where
    /// nothing is sealed.
    pub fn container_key(&self, seal: Seal, salt: &[u8; 32]) -> Option<SealKey> {
        self.salted("Quintet 2026-11 container payloads", seal, salt)
    }

    /// Records of the journal slot's use with this salt; the nonce is the position.
    pub fn journal_key(&self, seal: Seal, salt: &[u8; 32]) -> Option<SealKey> {
        self.salted("Quintet 2026-11 journal records", seal, salt)
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
