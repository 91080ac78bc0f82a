//! The minimum trash period: garbage collection keeps forgotten snapshots at least this long,
//! whatever its options say. The program sets it; garbage collection reads it.
//!
//! Invariant: every writer may raise it. Lowering it needs a recovery key that existed when it was
//! first set. A recovery key that the owner of a password adds later lowers nothing.

use super::{Pool, Purpose};
use crate::write_path::LaneOptions;
use chunk_store::catalog::{Edit, visit};
use chunk_store::superblock::{Notes, SlotInfo, list_slots};
use chunk_store::{Result, StoreError, StoreErrorKind};
use format::config::Seal;
use format::key_slot::KeyDerivation;
use format::trash_minimum::{TRASH_MINIMUM_KEY, TrashMinimum};
use read_path::node_error;
use std::ops::ControlFlow;
use units::Fingerprint;

impl Pool {
    /// Returns the setting; 0 seconds if there is none.
    pub fn trash_minimum(&self) -> Result<TrashMinimum> {
        self.trash_minimum_of(self.commits.held().catalog())
    }

    fn trash_minimum_of(&self, catalog: Option<Fingerprint>) -> Result<TrashMinimum> {
        let mut found = None;
        let mut load = self.storage.map_node();
        let _ = visit(catalog, TRASH_MINIMUM_KEY, &mut load, &mut |key, value| {
            if key == TRASH_MINIMUM_KEY {
                found = Some(TrashMinimum::decode(value));
            }
            Ok(ControlFlow::Break(()))
        })?;
        let at = catalog.unwrap_or_default();
        let found = found.transpose().map_err(|e| node_error(&at, e))?;
        Ok(found.unwrap_or_default())
    }

    /// Sets it, durable on return. `by` is the key that the caller has shown. Fails with `WrongKey`
    /// for a shorter period without an entitled recovery key, and with `Invalid` if no key could
    /// ever lower it again.
    pub fn set_trash_minimum(&self, seconds: u64, by: Option<&SlotInfo>) -> Result<()> {
        if self.storage.config.seal == Seal::None {
            let why = "a minimum trash period needs a recovery key, and this pool is not encrypted";
            return Err(StoreError::new(StoreErrorKind::Invalid, why));
        }
        let session = self.begin(LaneOptions::metadata())?;
        self.commit_with(Purpose::Snapshots, |base| {
            let mut minimum = self.trash_minimum_of(base.record.catalog)?;
            let may_lower = by.is_some_and(|by| minimum.guards.contains(&by.slot.id));
            if seconds < minimum.seconds && !may_lower {
                let why = "only a recovery key from before the minimum trash period was set can \
                           shorten it: use --key-file";
                return Err(StoreError::new(StoreErrorKind::WrongKey, why));
            }
            if minimum.guards.is_empty() {
                minimum.guards = self.recovery_slots()?;
            }
            if minimum.guards.is_empty() {
                let why = "the pool has no recovery key, and only such a key can shorten the period \
                           again: create one first (quintet key recovery)";
                return Err(StoreError::new(StoreErrorKind::Invalid, why));
            }
            minimum.seconds = seconds;
            let edit = Edit {
                key: TRASH_MINIMUM_KEY.to_vec(),
                value: Some(minimum.encode()),
            };
            session.commit(base, vec![edit], 0)
        })
        .map(drop)
    }

    fn recovery_slots(&self) -> Result<Vec<[u8; 8]>> {
        let slots = list_slots(&self.storage.media, self.storage.id(), &mut Notes::new())?;
        let recovery = |info: &&SlotInfo| info.slot.derivation == KeyDerivation::Recovery;
        Ok(slots.iter().filter(recovery).map(|s| s.slot.id).collect())
    }
}
