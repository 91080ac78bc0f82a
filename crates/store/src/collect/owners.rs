//! Finds which of the newest snapshots and volumes refer to chunks that will be copied, so that
//! copies can be ordered by owner (GCCDF, EuroSys'25). A garbage collection run calls this between
//! choosing and copying; `segment` asks the result.
//!
//! ```text
//! list snapshots and volumes -> choose owners -> enter chunks to copy -> walk the owners' recipes
//! ```
//!
//! Invariant: this is advice. Whatever cannot be read is skipped, and the result affects only the
//! order of copies. Memory is borrowed from the cache of decoded regions and bounded by that.

mod choosing;
mod table;
mod walk;

pub(super) use table::Owned;

use super::GcStep;
use super::mark::Mark;
use crate::pool::Pool;
use choosing::{Owner, Recent};
use chunk_store::Result;
use chunk_store::catalog::visit;
use format::container::ContainerClass;
use format::snapshot::{SNAPSHOT_KEY_TAG, Snapshot};
use format::volume::{VOLUME_KEY_TAG, VolumeRecord};
use read_path::BorrowedMemory;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use table::OwnerTable;
use units::{ContainerId, Fingerprint};
use walk::Walk;

/// Number of owners that have a bit.
pub(super) const OWNERS_MAX: usize = 32;
/// Windows of a segment. More would order more chunks together, and read more regions again.
const WINDOWS_MAX: u64 = 4;
/// Part of the memory of copies that directories of their containers get.
const DIRECTORIES_SHARE: u64 = 4;
/// Number of catalog entries that one step reads.
const ENTRIES_A_STEP: usize = 4096;
/// Bytes of budget that one reference, or one directory entry, costs.
const REFERENCE_BYTES: u64 = 4096;
/// The walk follows at most this many references for each one that the mark followed.
const REFERENCES_RATIO_MAX: u64 = 2;

/// See the module's head.
pub struct Owners {
    stage: Stage,
    recent: Recent,
    /// The newest first.
    owners: Vec<Owner>,
    /// Containers whose live chunks are not in the table yet, in the order of copying.
    containers: VecDeque<ContainerId>,
    table: OwnerTable,
    walk: Walk,
    memory: BorrowedMemory,
}

#[derive(Debug)]
enum Stage {
    /// Key at which the walk over the catalog continues.
    Listing(Vec<u8>),
    Entering,
    Walking,
    Done,
}

impl Owners {
    /// Begins for containers that will be copied, in this order. `None` if there is no memory for
    /// it.
    pub fn begin(
        pool: &Pool,
        mark: &Mark,
        containers: impl IntoIterator<Item = ContainerId>,
    ) -> Option<Self> {
        let memory = pool.reader().borrow_memory()?;
        let live = mark.live();
        let is_data = |id: &ContainerId| {
            let live = live.of(*id);
            live.is_some_and(|live| live.class == ContainerClass::Data)
        };
        let containers: VecDeque<_> = containers.into_iter().filter(is_data).collect();
        let chunks = containers.iter().filter_map(|id| live.of(*id));
        let chunks: usize = chunks.map(|live| live.chunk_count()).sum();
        let table = OwnerTable::new(chunks, memory.bytes() / 2);
        let references_max = mark.summary().read.references * REFERENCES_RATIO_MAX;
        Some(Self {
            stage: Stage::Listing(vec![SNAPSHOT_KEY_TAG]),
            recent: Recent::default(),
            owners: Vec::new(),
            containers,
            walk: Walk::new(memory.bytes() - table.memory_bytes(), references_max),
            table,
            memory,
        })
    }

    /// Does about `budget_bytes` of work. Reads what is not in memory.
    pub fn step(&mut self, pool: &Pool, mark: &Mark, budget_bytes: u64) -> GcStep {
        let references = budget_bytes / REFERENCE_BYTES + 1;
        let next = match &mut self.stage {
            Stage::Listing(from) => match list(pool, mark, from, &mut self.recent) {
                Ok(Some(next)) => Stage::Listing(next),
                // Owners in an unreadable part of the catalog are unknown.
                Ok(None) | Err(_) => {
                    self.owners = std::mem::take(&mut self.recent).chosen();
                    match self.is_useful() {
                        true => Stage::Entering,
                        false => Stage::Done,
                    }
                }
            },
            Stage::Entering => match self.enter(pool, mark) {
                GcStep::Working => return GcStep::Working,
                GcStep::Done => {
                    let owners = self.owners.iter().enumerate();
                    owners.for_each(|(n, owner)| self.walk.add(&mut self.table, owner, n));
                    Stage::Walking
                }
            },
            Stage::Walking => match self.walk.step(pool.reader(), &mut self.table, references) {
                GcStep::Working => return GcStep::Working,
                GcStep::Done => {
                    self.walk.clear();
                    Stage::Done
                }
            },
            Stage::Done => return GcStep::Done,
        };
        self.stage = next;
        match self.stage {
            Stage::Done => GcStep::Done,
            _ => GcStep::Working,
        }
    }

    /// Returns false if an order by owner would be the same as any other: there are no two owners.
    pub fn is_useful(&self) -> bool {
        self.owners.len() > 1
    }

    /// Returns the memory in use, bytes.
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes() + self.walk.memory_bytes()
    }

    /// Returns the live plain bytes of containers that are ordered together.
    pub fn segment_bytes(&self) -> u64 {
        self.window_bytes() * WINDOWS_MAX
    }

    /// Returns the plain bytes that copies may have in memory.
    pub(super) fn window_bytes(&self) -> u64 {
        self.copy_bytes_max() - self.directory_bytes()
    }

    /// Returns the memory for directories of containers in a segment, bytes.
    pub(super) fn directory_bytes(&self) -> u64 {
        self.copy_bytes_max() / DIRECTORIES_SHARE
    }

    fn copy_bytes_max(&self) -> u64 {
        (self
            .memory
            .bytes()
            .saturating_sub(self.table.memory_bytes())) as u64
    }

    /// Returns the owners of a chunk: none if no chosen owner refers to it, or if it is unknown.
    pub(super) fn of(&self, fingerprint: &Fingerprint) -> Owned {
        self.table.of(fingerprint)
    }

    /// Enters the live chunks of one container.
    fn enter(&mut self, pool: &Pool, mark: &Mark) -> GcStep {
        let next = self
            .containers
            .pop_front()
            .filter(|_| !self.table.is_full());
        let Some(id) = next else {
            self.containers.clear();
            return GcStep::Done;
        };
        // A damaged container is found again when it is copied.
        if let (Ok(directory), Some(live)) = (pool.chunks().directory(id), mark.live().of(id)) {
            directory.each(&mut |fingerprint, number, _| {
                if live.holds(number) {
                    self.table.enter(fingerprint);
                }
            });
        }
        GcStep::Working
    }
}

/// Lists a part of the catalog. Returns the key at which to continue, or `None` at the end.
fn list(pool: &Pool, mark: &Mark, from: &[u8], recent: &mut Recent) -> Result<Option<Vec<u8>>> {
    let (mut count, mut next) = (0, None);
    let mut load = |f: &Fingerprint| pool.reader().map_node(f);
    let _ = visit(mark.catalog(), from, &mut load, &mut |key, value| {
        if count == ENTRIES_A_STEP {
            next = Some(key.to_vec());
            return Ok(ControlFlow::Break(()));
        }
        count += 1;
        // An entry that cannot be decoded is no owner.
        match key.first() {
            Some(&SNAPSHOT_KEY_TAG) => {
                if let Ok(snapshot) = Snapshot::decode(key, value) {
                    recent.add_snapshot(&snapshot);
                }
                Ok(ControlFlow::Continue(()))
            }
            Some(&VOLUME_KEY_TAG) => {
                if let Ok(volume) = VolumeRecord::decode(key, value) {
                    recent.add_volume(&volume);
                }
                Ok(ControlFlow::Continue(()))
            }
            Some(tag) if *tag < SNAPSHOT_KEY_TAG.max(VOLUME_KEY_TAG) => {
                Ok(ControlFlow::Continue(()))
            }
            _ => Ok(ControlFlow::Break(())),
        }
    })?;
    Ok(next)
}
