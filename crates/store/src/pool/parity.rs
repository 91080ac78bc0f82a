//! Stores containers again that parity restores, and sets the parity of new containers. Scrub,
//! repair, every commit and the server call this.
//!
//! Invariant: a container is replaced only by its own original bytes, of which all sectors, regions
//! and checksums were verified, and atomically: file, sync, rename. A failure leaves the old blob.
//! A container that garbage collection deletes meanwhile stays deleted.

use super::hints::restorable;
use super::{Pool, Purpose};
use crate::write_path::LaneOptions;
use chunk_store::catalog::parity_edit;
use chunk_store::container::container_name;
use chunk_store::{Result, StoreError, StoreErrorKind};
use format::parity::PARITY_PERCENT_MAX;
use media::{Barrier, Put};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::ContainerId;

/// Containers that are being replaced, by name. True: deleted meanwhile.
#[derive(Default)]
pub(super) struct Replacing(Mutex<BTreeMap<String, bool>>);

impl Replacing {
    /// Records a deletion. The caller does this before it deletes a blob.
    pub fn is_going(&self, name: &str) {
        if let Some(is_deleted) = self.0.lock().get_mut(name) {
            *is_deleted = true;
        }
    }
}

impl Pool {
    /// Stores a container again as it was written, durable on return. Returns how many of its
    /// sectors (4 KiB) were damaged. Fails with `Corruption` if parity cannot restore it. The pool
    /// must be open for writing.
    pub fn restore_container(&self, id: ContainerId) -> Result<u32> {
        if self.lock.is_none() {
            let why = "the pool is open for reading only";
            return Err(StoreError::new(StoreErrorKind::Invalid, why));
        }
        let name = container_name(id);
        let is_another = {
            let mut replacing = self.replacing.0.lock();
            let is_another = replacing.contains_key(&name);
            // Do not overwrite a deletion that was recorded for the other thread.
            replacing.entry(name.clone()).or_insert(false);
            is_another
        };
        if is_another {
            let why = "another thread restores it";
            return Err(StoreError::corruption("container", name, why));
        }
        let restored = self.containers.restore_now(id);
        let put = restored.and_then(|restored| {
            if restored.damaged > 0 {
                self.media.blobs.put(&name, restored.blob, Put::Restore)?;
            }
            Ok(restored.damaged)
        });
        let is_deleted = self.replacing.0.lock().remove(&name).unwrap_or(false);
        if is_deleted {
            self.media.blobs.delete(&name)?;
        }
        let damaged = put?;
        if damaged > 0 {
            self.media.blobs.barrier(Barrier::ContainersBeforeRoot)?;
        }
        self.containers.was_put_back(id);
        self.hints.settle(&BTreeSet::from([restorable(id)]));
        self.release_restored(id);
        Ok(damaged)
    }

    /// Takes the restored container's places out of quarantine, as far as they are sound.
    fn release_restored(&self, id: ContainerId) {
        let quarantine = &self.chunks.quarantine;
        let places = quarantine.places();
        for place in places.iter().filter(|place| place.container == id) {
            if place.is_whole() || self.containers.region_as_stored(*place, 1).is_ok() {
                quarantine.release(*place);
            }
        }
    }

    /// Stores containers again that were restored for readers, here and in earlier processes.
    /// Returns how many. The next reader or scrub finds those that fail.
    pub fn put_back_restored(&self) -> u64 {
        if self.lock.is_none() {
            return 0;
        }
        let mut put_back = 0;
        let mut damaged = self.hints.restorable();
        damaged.extend(self.containers.to_put_back());
        for id in damaged {
            match self.restore_container(id) {
                Ok(sectors) => put_back += u64::from(sectors > 0),
                Err(_) => self.is_not_restorable(id),
            }
            self.containers.forget_damage(id);
        }
        self.restored.fetch_add(put_back, Ordering::Relaxed);
        put_back
    }

    /// Returns how many containers were stored again since the pool was opened because readers had
    /// found them damaged.
    pub fn restored_for_readers(&self) -> u64 {
        self.restored.load(Ordering::Relaxed)
    }

    /// Returns the count of containers that readers found damaged, that parity restored, and that
    /// were not stored again since. It can be read after the pool was closed.
    pub fn found_restorable(&self) -> Arc<AtomicU64> {
        self.containers.restored_count()
    }

    /// Returns the parity of new containers, percent of their data; 0: none.
    pub fn parity(&self) -> u8 {
        self.parity_percent.load(Ordering::Relaxed)
    }

    /// Sets the parity of new containers, durable on return. Existing containers stay as they are.
    pub fn set_parity(&self, percent: u8) -> Result<()> {
        if percent > PARITY_PERCENT_MAX {
            let why = format!("parity is at most {PARITY_PERCENT_MAX} percent");
            return Err(StoreError::new(StoreErrorKind::Invalid, why));
        }
        let session = self.begin(LaneOptions::metadata())?;
        self.commit_with(Purpose::Snapshots, |base| {
            session.commit(base, vec![parity_edit(percent)], 0)
        })?;
        self.parity_percent.store(percent, Ordering::Relaxed);
        Ok(())
    }
}
