//! What volumes need of a pool: their records, and whether a chunk is stored.
//!
//! Invariant: nothing here writes. Called by the `volumes` room and by check.

use super::Pool;
use crate::read_path::node_error;
use chunk_store::Result;
use chunk_store::catalog::visit;
use chunk_store::chunk_map::Near;
use format::snapshot::{Snapshot, SnapshotKind};
use format::volume::{VOLUME_KEY_TAG, VolumeRecord};
use std::ops::ControlFlow;
use units::{Fingerprint, SnapshotId};

impl Pool {
    /// The catalog's volumes, by name. `Corruption` when part of it cannot be read: a volume that
    /// is passed over would lose its journal.
    pub fn volumes(&self) -> Result<Vec<VolumeRecord>> {
        let catalog = self.head().record.catalog;
        let at = catalog.unwrap_or_default();
        let mut volumes = Vec::new();
        let mut load = |f: &Fingerprint| self.reader.map_node(f);
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

    /// The folded contents of volumes in the shape of snapshots, for who walks everything that is
    /// live. What the journal holds is not in them.
    pub(super) fn volumes_as_snapshots(&self) -> Result<Vec<Snapshot>> {
        let as_snapshot = |volume: VolumeRecord| Snapshot {
            id: SnapshotId(volume.id.0),
            taken: volume.made,
            kind: SnapshotKind::Volume,
            root: volume.root,
            logical_bytes: volume.root.len,
            name: volume.name,
            host: String::new(),
            user: String::new(),
            program: String::new(),
            paths: Vec::new(),
            tags: Vec::new(),
            files: 0,
            directories: 0,
            added_bytes: 0,
            duration_ms: 0,
            parent: volume.origin,
            signature: Vec::new(),
            missed: Default::default(),
            previous: Default::default(),
        };
        Ok(self.volumes()?.into_iter().map(as_snapshot).collect())
    }

    /// True when a chunk is in a container; looks everywhere before it says no.
    pub fn holds_chunk(&self, fingerprint: &Fingerprint) -> Result<bool> {
        let place = self.chunks.locate(fingerprint, &mut Near::default())?;
        Ok(place.is_some())
    }
}

/// The number of a volume or snapshot in traces: the start of its id.
pub fn trace_key(id: &[u8; 16]) -> u64 {
    u64::from_le_bytes(id.first_chunk().copied().unwrap_or_default())
}
