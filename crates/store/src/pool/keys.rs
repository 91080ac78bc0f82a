//! Lists, adds and removes key slots of a pool. The program calls this.
//!
//! Invariant: an encrypted pool keeps at least one slot.

use super::Pool;
use chunk_store::superblock::{
    NewSecret, Notes, SecretKey, SlotInfo, add_slot, list_slots, remove_slot, unlock,
};
use chunk_store::{Result, StoreError, StoreErrorKind};
use format::config::Seal;
use media::Barrier;

impl Pool {
    /// Returns the readable key slots, oldest first, and the one that opened the pool.
    pub fn keys(&self) -> Result<(Vec<SlotInfo>, Option<SlotInfo>)> {
        Ok((
            list_slots(&self.media, self.config.pool, &mut Notes::new())?,
            self.opened_with.clone(),
        ))
    }

    /// Returns the key slot that `secret` opens. Fails with `WrongKey` if there is none. Returns
    /// `None` without encryption.
    pub fn slot_of(&self, secret: &SecretKey) -> Result<Option<SlotInfo>> {
        if self.config.seal == Seal::None {
            return Ok(None);
        }
        let (_, slot) = unlock(&self.media, self.config.pool, secret, &mut Notes::new())?;
        Ok(Some(slot))
    }

    /// Adds a key slot, durable on return. Fails with `Invalid` without encryption.
    pub fn add_key(&self, new: &NewSecret<'_>) -> Result<SlotInfo> {
        self.key_change_allowed()?;
        add_slot(
            &self.media,
            &self.config,
            &self.master,
            new,
            Barrier::KeyBeforeAck,
        )
    }

    /// Removes a key slot by name. Fails with `Invalid` on the last one.
    pub fn remove_key(&self, name: &str) -> Result<()> {
        self.key_change_allowed()?;
        remove_slot(&self.media, self.config.pool, name)
    }

    fn key_change_allowed(&self) -> Result<()> {
        if self.config.seal == Seal::None {
            let why = "the pool is not encrypted and has no keys";
            return Err(StoreError::new(StoreErrorKind::Invalid, why));
        }
        if self.lock.is_none() {
            let why = "the pool is open for reading only";
            return Err(StoreError::new(StoreErrorKind::Invalid, why));
        }
        Ok(())
    }
}
