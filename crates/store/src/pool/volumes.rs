//! Access of volumes to a pool: their records, and whether a chunk is stored. The `volumes` crate
//! and check call this.
//!
//! Invariant: nothing here writes.

use super::Pool;
use chunk_store::Result;
use chunk_store::catalog::visit;
use chunk_store::chunk_map::Near;
use format::reservations::ReservationsRecord;
use format::snapshot::{Snapshot, SnapshotKind};
use format::volume::{VOLUME_KEY_TAG, VolumeRecord};
use read_path::node_error;
use std::ops::ControlFlow;
use units::{Fingerprint, SnapshotId, VolumeId};

impl Pool {
    /// Returns the catalog's volumes by name. Fails with `Corruption` if a part of it cannot be
    /// read: a skipped volume would lose its journal.
    pub fn volumes(&self) -> Result<Vec<VolumeRecord>> {
        let held = self.commits.held();
        let catalog = held.catalog();
        let at = catalog.unwrap_or_default();
        let mut volumes = Vec::new();
        let mut load = self.storage.map_node();
        let mut entry = |key: &[u8], value: &[u8]| {
            if key.first() != Some(&VOLUME_KEY_TAG) {
                return Ok(ControlFlow::Break(()));
            }
            volumes.push(VolumeRecord::decode(key, value).map_err(|e| node_error(&at, e))?);
            Ok(ControlFlow::Continue(()))
        };
        let _ = visit(catalog, &[VOLUME_KEY_TAG], &mut load, &mut entry)?;
        Ok(volumes)
    }

    /// Returns the catalog's entry of a volume's persistent reservations, as it is stored.
    pub fn reservations(&self, volume: VolumeId) -> Result<Option<Vec<u8>>> {
        let wanted = ReservationsRecord::key_of(volume);
        let mut found = None;
        let mut load = self.storage.map_node();
        let mut entry = |key: &[u8], value: &[u8]| {
            if key == wanted {
                found = Some(value.to_vec());
            }
            Ok(ControlFlow::Break(()))
        };
        let held = self.commits.held();
        let _ = visit(held.catalog(), &wanted, &mut load, &mut entry)?;
        Ok(found)
    }

    /// Returns the contents of volumes in the form of snapshots, for walks over everything that is
    /// live. Writes in the journal that are not yet applied are not included.
    pub(super) fn volumes_as_snapshots(&self) -> Result<Vec<Snapshot>> {
        let as_snapshot = |volume: VolumeRecord| Snapshot {
            name: volume.name,
            parent: volume.origin,
            ..Snapshot::new(
                SnapshotId(volume.id.0),
                volume.made,
                SnapshotKind::Volume,
                volume.root,
            )
        };
        Ok(self.volumes()?.into_iter().map(as_snapshot).collect())
    }

    /// Returns true if a chunk is in a container. Searches everywhere before it returns false.
    pub fn holds_chunk(&self, fingerprint: &Fingerprint) -> Result<bool> {
        let place = self
            .storage
            .chunks
            .locate(fingerprint, &mut Near::default())?;
        Ok(place.is_some())
    }
}

/// Returns the number of a volume or snapshot in traces: the first eight bytes of its id.
pub fn trace_key(id: &[u8; 16]) -> u64 {
    u64::from_le_bytes(id.first_chunk().copied().unwrap_or_default())
}
