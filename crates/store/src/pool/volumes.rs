//! What volumes need of a pool: their records and the journal below them.
//!
//! Invariant: nothing here writes but the journal. Called by the volumes room of the store and by check.

use super::Pool;
use crate::catalog::visit;
use crate::chunk_map::Near;
use crate::error::Result;
use crate::journal::{Inspection, Journal, JournalDamage, JournalOptions, LostWrites, Record};
use crate::read_path::node_error;
use format::snapshot::{Snapshot, SnapshotKind};
use format::volume::{VOLUME_KEY_TAG, VolumeRecord};
use media::Barrier;
use std::ops::ControlFlow;
use units::{Fingerprint, JournalPosition, SnapshotId};

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

    /// Opens the journal and replays what lies at `from` and above.
    pub(crate) fn open_journal(
        &self,
        options: &JournalOptions,
        from: JournalPosition,
        replay: &mut dyn FnMut(JournalPosition, Record<'_>) -> Result<()>,
    ) -> Result<(Journal, Vec<JournalDamage>)> {
        // What it folded in may be nowhere else, and flushes say nothing of roots.
        self.media.blobs.barrier(Barrier::RootBeforeJournal)?;
        Journal::open(
            &self.media,
            self.config.pool,
            &self.master,
            self.config.seal,
            options,
            from,
            replay,
        )
    }

    /// What is wrong with the journal from `from` on; writes nothing. Where somebody else writes,
    /// damage below the position that a root says afterwards is none.
    pub fn inspect_journal(&self) -> Result<Inspection> {
        let from = JournalPosition(self.record().journal_position);
        let (pool, seal) = (self.config.pool, self.config.seal);
        Journal::inspect(&self.media, pool, &self.master, seal, from)
    }

    /// Acknowledged writes that are lost and that nobody has acknowledged, and how many more there
    /// were.
    pub fn lost_writes(&self) -> Result<(Vec<LostWrites>, u32)> {
        let (pool, seal) = (self.config.pool, self.config.seal);
        Journal::recorded_losses(&self.media, pool, &self.master, seal)
    }

    /// True when a chunk is in a container; looks everywhere before it says no.
    pub(crate) fn holds_chunk(&self, fingerprint: &Fingerprint) -> Result<bool> {
        let place = self.chunks.locate(fingerprint, &mut Near::default())?;
        Ok(place.is_some())
    }

    /// Returns when all containers that were put are durable.
    pub(crate) fn blobs_barrier(&self, point: Barrier) -> Result<()> {
        Ok(self.media.blobs.barrier(point)?)
    }

    /// Fills `bytes` with randomness of the pool's media.
    pub(crate) fn fill_random(&self, bytes: &mut [u8]) {
        self.media.random.fill(bytes);
    }
}

/// The number of a volume or snapshot in traces: the start of its id.
pub(crate) fn key_of(id: &[u8; 16]) -> u64 {
    u64::from_le_bytes(id.first_chunk().copied().unwrap_or_default())
}
