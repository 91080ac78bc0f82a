//! The newest commit of a pool, and the writers that make the next ones. All parts of a pool ask
//! it.
//!
//! Invariant: the newest commit changes only under `committing`, so commits follow each other. The
//! lock of what is known of it is never held across device I/O.

use super::holds::{HeldCommit, Hold, Holds};
use super::storage::PoolStorage;
use crate::recovery::WRITERS;
use crate::write_path::{Base, Committed};
use chunk_store::catalog::{InventoryEntry, inventory_key, parse_inventory, visit_readable};
use chunk_store::superblock::{Notes, newest_root, repair_root};
use chunk_store::{Result, StoreError, StoreErrorKind};
use format::root::RootRecord;
use media::Barrier;
use parking_lot::{Mutex, MutexGuard};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use units::{ContainerId, Generation};

/// Purpose of a session: an index into the pool's writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Backups, imports and all short commits.
    Snapshots = 0,
    /// Checkpoints of volumes. The session lives as long as the volumes are open.
    Volumes = 1,
    /// Large writes to volumes. The session lives as long as the volumes are open.
    Direct = 2,
    /// Copies and commits of garbage collection.
    Collect = 3,
    /// Copies and commits of defragmentation.
    Defragment = 4,
}

impl Purpose {
    /// All purposes, in the order of the pool's writers.
    pub(super) const ALL: [Self; WRITERS.len()] = [
        Self::Snapshots,
        Self::Volumes,
        Self::Direct,
        Self::Collect,
        Self::Defragment,
    ];
}

/// A writer that now belongs to one session.
pub(super) struct Claim {
    pub purpose: Purpose,
    pub token: Arc<Option<Hold>>,
    /// True if the writer's last session did not commit.
    pub recover: bool,
}

pub(super) struct Head {
    pub generation: Generation,
    pub generation_highest: Generation,
    pub record: RootRecord,
    /// A commit began and failed, so a newer root may exist.
    pub uncertain: bool,
    /// In the order of `WRITERS`.
    pub writers: [WriterState; WRITERS.len()],
}

/// One of the container sequences that this process writes.
#[derive(Default)]
pub(super) struct WriterState {
    /// Containers of a crashed session. The next commit of this writer adds them to the inventory.
    pub adopted: Vec<InventoryEntry>,
    /// The open session, if any.
    pub session: Weak<Option<Hold>>,
    /// A session began and has not committed. Its leftovers are found as after a crash.
    pub uncommitted: bool,
    /// Next container number.
    pub next_sequence: Arc<AtomicU64>,
}

/// See the module's head.
pub(crate) struct Commits {
    storage: Arc<PoolStorage>,
    head: Mutex<Head>,
    /// Locked during a commit: commits of concurrent sessions follow each other. It is the only
    /// lock of a pool that is held across device I/O.
    pub committing: Mutex<()>,
    /// Locked while leftovers of dead sessions are entered: new sessions wait for that.
    pub entering: Mutex<()>,
    /// The newest generation, for owners that outlive the pool.
    newest: Arc<AtomicU64>,
    pub holds: Arc<Holds>,
    /// Parity of new containers, percent.
    pub parity_percent: AtomicU8,
}

impl Commits {
    pub(super) fn new(storage: &Arc<PoolStorage>, head: Head, parity_percent: u8) -> Self {
        Self {
            storage: Arc::clone(storage),
            newest: Arc::new(AtomicU64::new(head.generation.0)),
            head: Mutex::new(head),
            committing: Mutex::default(),
            entering: Mutex::default(),
            holds: Arc::default(),
            parity_percent: AtomicU8::new(parity_percent),
        }
    }

    pub(super) fn head(&self) -> MutexGuard<'_, Head> {
        self.head.lock()
    }

    pub fn generation(&self) -> Generation {
        self.head.lock().generation
    }

    pub fn generation_cell(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.newest)
    }

    pub fn record(&self) -> RootRecord {
        self.head.lock().record.clone()
    }

    /// Makes one commit on top of the newest root, whichever session made that one.
    pub fn commit(
        &self,
        purpose: Purpose,
        commit: impl FnOnce(Base) -> Result<Committed>,
    ) -> Result<Committed> {
        if self.head.lock().uncertain {
            self.catch_up()?;
        }
        let base = {
            let mut head = self.head.lock();
            head.uncertain = true;
            Base {
                generation: head.generation_highest.next(),
                record: head.record.clone(),
            }
        };
        let committed = commit(base)?;
        let mut head = self.head.lock();
        head.uncertain = false;
        head.generation = committed.generation;
        self.newest.store(committed.generation.0, Ordering::Relaxed);
        head.generation_highest = committed.generation;
        head.record = committed.record.clone();
        let state = &mut head.writers[purpose as usize];
        state.adopted.clear();
        state.uncommitted = false;
        Ok(committed)
    }

    /// Returns the newest commit with a hold on it. All reads of the newest catalog begin here,
    /// except those of garbage collection, which alone deletes, and of commits, whose sessions have
    /// holds.
    pub fn held(&self) -> HeldCommit {
        let head = self.head.lock();
        HeldCommit {
            _hold: self.holds.take(head.generation),
            record: head.record.clone(),
        }
    }

    /// Holds the newest generation. Take it before reading names from the catalog.
    pub fn hold(&self) -> Hold {
        let head = self.head.lock();
        self.holds.take(head.generation)
    }

    /// Returns the newest generation and its record.
    pub fn newest(&self) -> (Generation, RootRecord) {
        let head = self.head.lock();
        (head.generation, head.record.clone())
    }

    /// Returns true if a crashed session with this purpose left containers that no commit has
    /// entered yet.
    pub fn has_adopted(&self, purpose: Purpose) -> bool {
        !self.head.lock().writers[purpose as usize]
            .adopted
            .is_empty()
    }

    /// Returns true if volumes over this pool have an open session.
    pub fn has_open_volumes(&self) -> bool {
        let head = self.head.lock();
        let is_open = |purpose: Purpose| head.writers[purpose as usize].session.strong_count() > 0;
        is_open(Purpose::Volumes) || is_open(Purpose::Direct)
    }

    /// Returns the number of a writer's next container.
    pub fn next_sequence(&self, purpose: Purpose) -> u64 {
        let head = self.head.lock();
        let next = &head.writers[purpose as usize].next_sequence;
        next.load(Ordering::Relaxed)
    }

    /// Claims a writer for a session.
    pub(super) fn claim(&self, purpose: Purpose) -> Result<Claim> {
        self.storage.check_writable()?;
        let mut head = self.head.lock();
        let held = purpose == Purpose::Snapshots;
        let hold = held.then(|| self.holds.take(head.generation));
        let token = Arc::new(hold);
        let state = &mut head.writers[purpose as usize];
        if state.session.strong_count() > 0 {
            let why = "this process has another session open";
            return Err(StoreError::new(StoreErrorKind::Invalid, why));
        }
        state.session = Arc::downgrade(&token);
        let recover = std::mem::replace(&mut state.uncommitted, true);
        Ok(Claim {
            purpose,
            token,
            recover,
        })
    }

    /// Takes over a root that a failed commit put and could not make durable.
    pub fn catch_up(&self) -> Result<()> {
        let (media, pool) = (&self.storage.media, self.storage.id());
        // Makes all puts visible. Always fails after one of them has failed.
        media.blobs.barrier(Barrier::ContainersBeforeRoot)?;
        let notes = &mut Notes::new();
        let newest = newest_root(media, pool, self.storage.sealing(), None, notes)?;
        let mut head = self.head.lock();
        head.uncertain = false;
        let highest = head.generation_highest;
        let Some(newest) = newest.filter(|newest| newest.generation > highest) else {
            return Ok(());
        };
        let known = std::mem::replace(&mut head.record, newest.record);
        head.generation = newest.generation;
        self.newest.store(newest.generation.0, Ordering::Relaxed);
        head.generation_highest = newest.generation_highest;
        drop(head);
        repair_root(media, pool, self.storage.sealing(), newest.generation)?;
        self.storage.chunks.enter_from(&known.next_sequence)
    }

    /// Returns true if a failed commit is known not to have taken effect: no root is newer than
    /// this generation.
    pub fn is_still_at(&self, generation: Generation) -> bool {
        let _committing = self.committing.lock();
        self.catch_up().is_ok() && self.head.lock().generation == generation
    }

    /// Returns the first container of the newest commit from this id on. Skips unreadable parts.
    pub fn inventory_from(&self, from: ContainerId) -> Result<Option<InventoryEntry>> {
        let mut found = None;
        let mut load = self.storage.map_node();
        let mut entry = |key: &[u8], value: &[u8]| {
            found = parse_inventory(key, value)?;
            Ok(ControlFlow::Break(()))
        };
        let damaged = &mut |_| Ok(());
        let from = inventory_key(from);
        let held = self.held();
        let _ = visit_readable(held.catalog(), &from, &mut load, &mut entry, damaged)?;
        Ok(found)
    }

    /// Returns the entry of a container in the newest commit.
    pub fn inventory_of(&self, id: ContainerId) -> Result<Option<InventoryEntry>> {
        Ok(self.inventory_from(id)?.filter(|entry| entry.id == id))
    }
}
