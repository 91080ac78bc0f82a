//! Reads the settings and the master key of a pool before it is opened, from the caller's secret.
//! `pool` and the program call this.
//!
//! Invariant: nothing on disk decides whether a key is needed. A caller with a secret never gets an
//! unencrypted pool, and the settings are those with which the key slot was made. Takes no lock and
//! changes nothing, so a caller may run it in a thread and not wait for its end.

use super::adopting::Watch;
use super::{Pool, unfinished};
use chunk_store::superblock::{
    MasterKey, Notes, SecretKey, SlotInfo, is_empty, other_config, read_config, unlock,
};
use chunk_store::{Result, StoreError, StoreErrorKind};
use chunking::SPLITTER_NUMBER;
use format::config::{Config, Seal};
use media::Media;

/// Settings and key of a pool, ready to be opened.
pub struct Unlocked {
    pub(super) config: Config,
    pub(super) master: MasterKey,
    pub(super) opened_with: Option<SlotInfo>,
    pub(super) notes: Notes,
    pub(super) watch: Watch,
}

impl Unlocked {
    /// Returns the settings of the pool.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Has `watch` called while opening for writing reads what interrupted runs left.
    pub fn watched(self, watch: Watch) -> Self {
        Self { watch, ..self }
    }
}

impl Pool {
    /// Returns settings and key of a pool. Without a secret only unencrypted pools open, with a
    /// secret only encrypted ones; otherwise this fails with `WrongKey`. Stretching a password
    /// takes a second, and up to half a minute with forged slots.
    pub fn unlock(media: &Media, secret: Option<&SecretKey>) -> Result<Unlocked> {
        let mut notes = Notes::new();
        let mut config = read_config(&*media.blobs, &mut notes)?;
        if config.splitter != SPLITTER_NUMBER {
            let why = format!("splitter {}", config.splitter);
            return Err(StoreError::new(StoreErrorKind::Unsupported, why));
        }
        // Check this before the user is asked for a key or sees that the keys are damaged.
        if is_empty(&*media.blobs)? {
            return Err(unfinished());
        }
        let is_sealed = |config: &Config| config.seal != Seal::None;
        if !is_sealed(&config)
            && let Some(other) = other_config(&*media.blobs, &config, is_sealed)
        {
            notes.push("config: one of two copies says that the pool is not encrypted".into());
            config = other;
        }
        let (master, opened_with) = match (config.seal, secret) {
            (Seal::None, None) => (MasterKey::new(config.clear_master_key), None),
            (Seal::None, Some(_)) => return Err(not_encrypted()),
            (_, Some(secret)) => {
                let (master, slot) = unlock(media, config.pool, secret, &mut notes)?;
                (master, Some(slot))
            }
            (_, None) => {
                let why = "the pool is encrypted; give a password or a key";
                return Err(StoreError::new(StoreErrorKind::WrongKey, why));
            }
        };
        if let Some(bound) = opened_with.as_ref().and_then(|slot| slot.slot.config)
            && config.bound() != bound
        {
            let is_bound = |config: &Config| config.bound() == bound;
            let Some(other) = other_config(&*media.blobs, &config, is_bound) else {
                let why = "it is not the config that the key was created with";
                return Err(StoreError::corruption("config", "config", why));
            };
            notes.push("config: one of two copies does not belong to the keys".into());
            config = other;
        }
        Ok(Unlocked {
            config,
            master,
            opened_with,
            notes,
            watch: Watch::default(),
        })
    }
}

fn not_encrypted() -> StoreError {
    let why = "a password or key was given, and the pool is not encrypted. Someone may have \
               replaced the pool or its config";
    StoreError::new(StoreErrorKind::WrongKey, why)
}
