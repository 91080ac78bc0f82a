//! The minimum trash period: collections keep forgotten snapshots for so long, whatever they are told.
//!
//! Invariant: raising it is anybody's who writes; lowering it takes a recovery key that was there when
//! it was first set. A recovery key that somebody with a password adds later lowers nothing. Called
//! by the program; the collector asks.

use super::{Pool, Purpose};
use crate::read_path::node_error;
use crate::write_path::LaneOptions;
use chunk_store::catalog::{Edit, visit};
use chunk_store::superblock::{Notes, SlotInfo, list_slots};
use chunk_store::{Result, StoreError, StoreErrorKind};
use format::config::Seal;
use format::key_slot::KeyDerivation;
use format::trash_minimum::{TRASH_MINIMUM_KEY, TrashMinimum};
use std::ops::ControlFlow;
use units::Fingerprint;

impl Pool {
    /// What is set; nothing is as good as 0 seconds.
    pub fn trash_minimum(&self) -> Result<TrashMinimum> {
        self.trash_minimum_of(self.record().catalog)
    }

    fn trash_minimum_of(&self, catalog: Option<Fingerprint>) -> Result<TrashMinimum> {
        let mut found = None;
        let mut load = |f: &Fingerprint| self.reader.map_node(f);
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

    /// Sets it, durable on return; `by` is the key that the caller has shown. `WrongKey` for less than
    /// before without a recovery key that may; `Invalid` where no key could ever lower it again.
    pub fn set_trash_minimum(&self, seconds: u64, by: Option<&SlotInfo>) -> Result<()> {
        if self.config.seal == Seal::None {
            let why = "a minimum trash period needs a recovery key, and a pool that is not \
                       encrypted has none";
            return Err(StoreError::new(StoreErrorKind::Invalid, why));
        }
        let session = self.begin(LaneOptions::metadata())?;
        self.commit_with(Purpose::Snapshots, |base| {
            let mut minimum = self.trash_minimum_of(base.record.catalog)?;
            let may_lower = by.is_some_and(|by| minimum.guards.contains(&by.slot.id));
            if seconds < minimum.seconds && !may_lower {
                let why = "only a recovery key that was there when the minimum trash period was \
                           first set can shorten it: use --key-file";
                return Err(StoreError::new(StoreErrorKind::WrongKey, why));
            }
            if minimum.guards.is_empty() {
                minimum.guards = self.recovery_slots()?;
            }
            if minimum.guards.is_empty() {
                let why = "the pool has no recovery key, which alone could shorten it again: make \
                           one first (quintet key recovery)";
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
        let slots = list_slots(&self.media, self.config.pool, &mut Notes::new())?;
        let recovery = |info: &&SlotInfo| info.slot.derivation == KeyDerivation::Recovery;
        Ok(slots.iter().filter(recovery).map(|s| s.slot.id).collect())
    }
}
