//! Lists, adds and removes key slots of a pool. The program calls this.
//!
//! Invariant: an encrypted pool keeps at least one slot.

use super::storage::PoolStorage;
use chunk_store::superblock::{
    NewSecret, Notes, SecretKey, SlotInfo, add_slot, list_slots, remove_slot, unlock,
};
use chunk_store::{Result, StoreError, StoreErrorKind};
use format::config::Seal;
use media::Barrier;
use std::sync::Arc;

/// The key slots of a pool.
pub struct Keys {
    storage: Arc<PoolStorage>,
    opened_with: Option<SlotInfo>,
}

impl Keys {
    pub(super) fn new(storage: &Arc<PoolStorage>, opened_with: Option<SlotInfo>) -> Self {
        Self {
            storage: Arc::clone(storage),
            opened_with,
        }
    }

    /// Returns the slot that opened the pool; `None` without encryption.
    pub fn opened_with(&self) -> Option<&SlotInfo> {
        self.opened_with.as_ref()
    }

    /// Returns the readable key slots, oldest first.
    pub fn list(&self) -> Result<Vec<SlotInfo>> {
        list_slots(&self.storage.media, self.storage.id(), &mut Notes::new())
    }

    /// Returns the key slot that `secret` opens. Fails with `WrongKey` if there is none. Returns
    /// `None` without encryption.
    pub fn slot_of(&self, secret: &SecretKey) -> Result<Option<SlotInfo>> {
        if self.storage.config.seal == Seal::None {
            return Ok(None);
        }
        let (_, slot) = unlock(
            &self.storage.media,
            self.storage.id(),
            secret,
            &mut Notes::new(),
        )?;
        Ok(Some(slot))
    }

    /// Adds a key slot, durable on return. Fails with `Invalid` without encryption.
    pub fn add(&self, new: &NewSecret<'_>) -> Result<SlotInfo> {
        self.check_changeable()?;
        add_slot(
            &self.storage.media,
            &self.storage.config,
            &self.storage.master,
            new,
            Barrier::KeyBeforeAck,
        )
    }

    /// Removes a key slot by name. Fails with `Invalid` on the last one.
    pub fn remove(&self, name: &str) -> Result<()> {
        self.check_changeable()?;
        remove_slot(&self.storage.media, self.storage.id(), name)
    }

    fn check_changeable(&self) -> Result<()> {
        if self.storage.config.seal == Seal::None {
            let why = "the pool is not encrypted and has no keys";
            return Err(StoreError::new(StoreErrorKind::Invalid, why));
        }
        self.storage.check_writable()
    }
}
