//! Forgets snapshots and takes them back. The program calls this.
//!
//! Invariant: a snapshot is either in the list, in the trash, or deleted. Each step is one commit
//! against the newest catalog. Only garbage collection removes from the trash.

use super::{Pool, Purpose};
use crate::write_path::{Committed, LaneOptions};
use chunk_store::catalog::{Discarded, Edit, Forgotten, TrashedContainer, forgotten_key};
use chunk_store::{Result, StoreError, StoreErrorKind};
use format::snapshot::Snapshot;
use std::collections::BTreeSet;
use units::{Fingerprint, SnapshotId};

impl Pool {
    /// Moves snapshots from the list to the trash, durable on return. Skips those that are not in
    /// the list any more.
    pub fn forget(&self, snapshots: &[Snapshot]) -> Result<Committed> {
        let session = self.begin_for(Purpose::Snapshots, LaneOptions::metadata())?;
        self.commit_with(Purpose::Snapshots, |base| {
            let since = Discarded {
                by: base.generation,
                at: self.now(),
            };
            let (mut edits, mut removed) = (Vec::new(), BTreeSet::new());
            for snapshot in snapshots {
                let key = snapshot.key();
                if !self.has_key(base.record.catalog, &key)? || !removed.insert(key.clone()) {
                    continue;
                }
                edits.push(Edit { key, value: None });
                let snapshot = snapshot.clone();
                edits.push(Forgotten { snapshot, since }.edit());
            }
            session.commit(base, edits, -(removed.len() as i64))
        })
    }

    /// Takes forgotten snapshots back into the list, durable on return. Fails with `NotFound` and
    /// changes nothing if one of them is not in the trash.
    pub fn undelete(&self, ids: &[SnapshotId]) -> Result<Vec<Snapshot>> {
        let session = self.begin_for(Purpose::Snapshots, LaneOptions::metadata())?;
        let mut back = Vec::new();
        self.commit_with(Purpose::Snapshots, |base| {
            let (forgotten, _) = self.trash_of(base.record.catalog)?;
            let mut edits = Vec::new();
            for id in ids.iter().collect::<BTreeSet<_>>() {
                let Some(found) = forgotten.iter().find(|f| f.snapshot.id == *id) else {
                    let why = format!("snapshot {id} is not in the trash");
                    return Err(StoreError::new(StoreErrorKind::NotFound, why));
                };
                edits.push(Edit {
                    key: forgotten_key(&found.snapshot),
                    value: None,
                });
                edits.push(Edit {
                    key: found.snapshot.key(),
                    value: Some(found.snapshot.encode()),
                });
                back.push(found.snapshot.clone());
            }
            let change = back.len() as i64;
            session.commit(base, edits, change)
        })?;
        Ok(back)
    }

    /// Returns the forgotten snapshots, oldest first, and the containers in the trash.
    pub fn trash(&self) -> Result<(Vec<Forgotten>, Vec<TrashedContainer>)> {
        self.trash_of(self.commits.held().catalog())
    }

    pub(crate) fn trash_of(
        &self,
        catalog: Option<Fingerprint>,
    ) -> Result<(Vec<Forgotten>, Vec<TrashedContainer>)> {
        self.storage.trash_of(catalog)
    }

    /// Returns true if the catalog with this root has an entry with this key.
    pub fn has_key(&self, catalog: Option<Fingerprint>, key: &[u8]) -> Result<bool> {
        self.storage.has_key(catalog, key)
    }
}
