//! The mark: finds what is live as of one commit, in bounded steps (physical garbage collection,
//! FAST'17). Garbage collection calls this.
//!
//! ```text
//! oldest hold -> needs of open volumes -> commit -> open snapshots -> trash
//!   -> walk the catalog -> mark objects (`space::marking`) -> mark open snapshots -> done
//! ```
//!
//! Snapshots that clients of this process have open count as live, purged or not (`held`).
//!
//! Invariant: a finished mark has reached everything that its commit names, everything that open
//! volumes need and no commit names yet, and all open snapshots. The oldest hold is recorded before
//! that, so the marked commit covers every hold that began later.

use super::held::{HeldCounts, HeldRoots};
use super::purge::is_unheld;
use super::unapplied::{Needed, OpenVolumes};
use super::{GcStep, SnapshotExpiry, invalid};
use crate::pool::Pool;
use crate::space::{LiveMap, MarkCounts, Marking, Sources};
use chunk_store::catalog::{Discarded, Forgotten, Trash, TrashedContainer, parse_trash, visit};
use chunk_store::{Result, StoreError};
use format::recipe::ObjectRoot;
use format::root::RootRecord;
use format::snapshot::{SNAPSHOT_KEY_TAG, Snapshot, SnapshotKind};
use format::volume::{VOLUME_KEY_TAG, VolumeRecord};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use units::{ContainerId, Fingerprint, Generation, WriterId};

/// Number of catalog entries that one step reads.
const ENTRIES_A_STEP: usize = 4096;
/// Bytes of budget that one reference costs.
const REFERENCE_BYTES: u64 = 4096;

/// Result of a mark so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkSummary {
    /// Counts of what was read.
    pub read: MarkCounts,
    /// Number of live chunks and nodes.
    pub live_chunks: u64,
    /// Their length, bytes.
    pub live_bytes: u64,
    /// Memory of the marks, bytes.
    pub bit_bytes: u64,
    /// Part that only open snapshots need.
    pub held: HeldCounts,
}

/// See the module's head.
pub struct Mark {
    generation: Generation,
    record: RootRecord,
    /// The oldest generation that a hold had when marking began.
    held_oldest: Option<Generation>,
    /// Containers in the trash as of the commit.
    trash: Vec<TrashedContainer>,
    /// Set for an estimate: expired snapshots in the trash count as purged.
    estimate: Option<SnapshotExpiry>,
    /// Key at which the walk over the catalog continues; `None`: the walk is complete.
    cursor: Option<Vec<u8>>,
    pub(super) marking: Marking,
    held: HeldRoots,
    is_done: bool,
}

impl Mark {
    /// Begins a mark of the newest commit. If the pool has volumes, they must be open and `volumes`
    /// be given, because their journal may need chunks that no commit names. Fails with `Invalid`
    /// otherwise.
    pub fn begin(pool: &Pool, volumes: Option<&dyn OpenVolumes>) -> Result<Self> {
        Self::new(pool, volumes, None)
    }

    /// Begins a mark for a dry run, as if expired snapshots were purged. Without `volumes` it
    /// ignores their journal. Nothing can be deleted or copied with it.
    pub fn estimate(
        pool: &Pool,
        volumes: Option<&dyn OpenVolumes>,
        expiry: &SnapshotExpiry,
    ) -> Result<Self> {
        Self::new(pool, volumes, Some(*expiry))
    }

    /// The order matters: first holds, then the needs of volumes, then the catalog. A commit in
    /// between is included in the catalog that is read last.
    fn new(
        pool: &Pool,
        volumes: Option<&dyn OpenVolumes>,
        estimate: Option<SnapshotExpiry>,
    ) -> Result<Self> {
        let held_oldest = pool.held_oldest();
        let mut marking = Marking::default();
        match volumes {
            Some(volumes) if !std::ptr::eq(volumes.pool(), pool) => {
                return Err(invalid("the volumes belong to another pool"));
            }
            Some(volumes) => volumes.visit_unapplied(&mut marking)?,
            // Their journal is unknown, so the estimate ignores it.
            None if estimate.is_some() => {}
            None if pool.commits().has_open_volumes() || !pool.volumes()?.is_empty() => {
                return Err(invalid("the pool has volumes that are not open"));
            }
            None => {}
        }
        let (generation, record) = pool.commits().newest();
        // After the commit was chosen: see `pool::open_snapshots`.
        let held = HeldRoots::of(pool);
        let trash = pool.trash_of(record.catalog)?.1;
        Ok(Self {
            generation,
            record,
            held_oldest,
            trash,
            estimate,
            cursor: Some(Vec::new()),
            marking,
            held,
            is_done: false,
        })
    }

    /// Marks about `budget_bytes` of references. After an error the mark is useless: the children
    /// of the damaged object are unknown.
    pub fn step(&mut self, pool: &Pool, budget_bytes: u64) -> Result<GcStep> {
        if self.is_done {
            return Ok(GcStep::Done);
        }
        if !self.marking.is_full()
            && let Some(from) = self.cursor.take()
        {
            self.cursor = self.mark_catalog(pool, &from)?;
            return Ok(GcStep::Working);
        }
        let settled = settled(&self.record.next_sequence);
        let sources = Sources {
            chunks: pool.chunks(),
            reader: pool.reader(),
            settled: &settled,
        };
        self.marking
            .step(&sources, budget_bytes / REFERENCE_BYTES + 1)?;
        if !self.marking.is_done() || self.cursor.is_some() {
            return Ok(GcStep::Working);
        }
        // Last, so that what only they need can be counted, and damage below them stops nothing.
        self.is_done = self.held.follow(&mut self.marking);
        Ok(match self.is_done {
            true => GcStep::Done,
            false => GcStep::Working,
        })
    }

    /// Returns the result so far.
    pub fn summary(&self) -> MarkSummary {
        let live = &self.marking.live;
        MarkSummary {
            read: self.marking.counts,
            live_chunks: live.chunks,
            live_bytes: live.bytes,
            bit_bytes: live.bit_bytes() as u64,
            held: self.held.counts(),
        }
    }

    /// Returns the marked generation.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Returns the containers in the trash as of that commit, without those deleted since.
    pub fn trash(&self) -> &[TrashedContainer] {
        &self.trash
    }

    pub(super) fn forget_deleted(&mut self, deleted: &[TrashedContainer]) {
        let deleted: BTreeSet<ContainerId> = deleted.iter().map(|t| t.entry.id).collect();
        self.trash.retain(|t| !deleted.contains(&t.entry.id));
    }

    /// Returns true if a hold was older than `since` when marking began.
    pub(super) fn is_held(&self, since: Discarded) -> bool {
        self.held_oldest.is_some_and(|held| held < since.by)
    }

    pub(super) fn catalog(&self) -> Option<Fingerprint> {
        self.record.catalog
    }

    pub(super) fn live(&self) -> &LiveMap {
        &self.marking.live
    }

    /// Fails with `Invalid` for an estimate or an unfinished mark.
    pub(super) fn require_proof(&self) -> Result<()> {
        match self.is_done && self.estimate.is_none() {
            true => Ok(()),
            false => Err(invalid("garbage collection needs a finished mark")),
        }
    }

    /// Returns true for containers that the marked commit or an earlier one has entered.
    pub(super) fn settled(&self) -> impl Fn(ContainerId) -> bool + '_ {
        settled(&self.record.next_sequence)
    }

    /// Returns true if this is an estimate in which the snapshot counts as purged.
    fn is_purged(&self, pool: &Pool, forgotten: &Forgotten) -> bool {
        let is_over = |expiry: SnapshotExpiry| expiry.is_over(pool, forgotten.since);
        self.estimate.is_some_and(is_over) && is_unheld(self.held_oldest, forgotten)
    }

    /// Marks the nodes of the next part of the catalog and queues the objects that it names.
    /// Returns the key at which to continue, or `None` at the end.
    fn mark_catalog(&mut self, pool: &Pool, from: &[u8]) -> Result<Option<Vec<u8>>> {
        let catalog = self.record.catalog;
        let (mut objects, mut named) = (Vec::new(), Vec::new());
        let (mut count, mut next) = (0, None);
        let mut nodes = Vec::new();
        let mut load = |f: &Fingerprint| {
            nodes.push(*f);
            pool.reader().map_node(f)
        };
        let _ = visit(catalog, from, &mut load, &mut |key, value| {
            if count == ENTRIES_A_STEP {
                next = Some(key.to_vec());
                return Ok(ControlFlow::Break(()));
            }
            count += 1;
            let damaged = |e: format::bytes::FormatError| {
                StoreError::corruption(e.what, catalog.unwrap_or_default(), e)
            };
            let mut of_snapshot = |s: &Snapshot| {
                named.push((s.taken, s.id));
                (s.root, s.kind == SnapshotKind::Tree)
            };
            match key.first() {
                Some(&SNAPSHOT_KEY_TAG) => {
                    let snapshot = Snapshot::decode(key, value).map_err(damaged)?;
                    objects.push(of_snapshot(&snapshot));
                }
                Some(&VOLUME_KEY_TAG) => {
                    let volume = VolumeRecord::decode(key, value).map_err(damaged)?;
                    objects.push((volume.root, false));
                }
                _ => {
                    if let Some(Trash::Snapshot(forgotten)) = parse_trash(key, value)?
                        && !self.is_purged(pool, &forgotten)
                    {
                        objects.push(of_snapshot(&forgotten.snapshot));
                    }
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        for node in nodes {
            self.marking.push_catalog_node(node);
        }
        named.iter().for_each(|name| self.held.is_named(*name));
        for (root, is_tree) in objects {
            self.marking.push(&root, is_tree);
        }
        Ok(next)
    }
}

impl Needed for Marking {
    fn object(&mut self, root: &ObjectRoot) {
        self.push(root, false);
    }

    fn chunk(&mut self, fingerprint: Fingerprint) {
        self.push_stray(fingerprint);
    }
}

/// Returns true for containers that the commit with these marks or an earlier one has entered.
fn settled(marks: &BTreeMap<WriterId, u64>) -> impl Fn(ContainerId) -> bool + '_ {
    |id| {
        marks
            .get(&id.writer())
            .is_some_and(|next| id.sequence() < *next)
    }
}
