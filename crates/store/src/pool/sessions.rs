//! Sessions of a pool: one at a time for each purpose, and the leftovers of sessions that did not
//! commit. The program calls this through `Pool`, and so do volumes, garbage collection and
//! defragmentation.
//!
//! Invariant: commits follow each other, each on top of the newest root. Each container number is
//! used once in a process. After a session that did not commit, only what is stored counts.

use super::Pool;
use super::holds::Hold;
use crate::recovery::WRITERS;
use crate::write_path::{Base, Committed, LaneOptions, Start, WriteSession};
use chunk_store::catalog::Edit;
use chunk_store::container::CONTAINER_BYTES_TARGET;
use chunk_store::superblock::{Notes, heal_root, newest_root};
use chunk_store::{Result, StoreError, StoreErrorKind};
use chunking::Compression;
use format::snapshot::Snapshot;
use media::{Barrier, IoOrigin, Need};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use units::{Generation, SnapshotId};

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
    purpose: Purpose,
    token: Arc<Option<Hold>>,
    /// True if the writer's last session did not commit.
    recover: bool,
}

impl Pool {
    /// Begins a session for new data; one at a time. The pool must be open for writing. Puts fail
    /// with `NoSpace` before they use the reserve.
    pub fn begin(&self, options: LaneOptions) -> Result<WriteSession> {
        self.begin_with(Purpose::Snapshots, options, Need::New)
    }

    /// Begins a session that may use the part of the reserve that its purpose allows.
    pub fn begin_for(&self, purpose: Purpose, options: LaneOptions) -> Result<WriteSession> {
        let need = match purpose {
            Purpose::Snapshots => Need::Deletion,
            Purpose::Volumes | Purpose::Direct => Need::Acknowledged,
            Purpose::Collect => Need::Room,
            Purpose::Defragment => Need::New,
        };
        self.begin_with(purpose, options, need)
    }

    fn begin_with(
        &self,
        purpose: Purpose,
        options: LaneOptions,
        need: Need,
    ) -> Result<WriteSession> {
        if matches!(purpose, Purpose::Snapshots | Purpose::Collect) {
            self.take_up_news();
        }
        let claim = {
            // `enter_leftovers` claims writers for a moment. With this lock a session is claimed
            // before that thread looks for writers without a session, or after it has finished.
            let _entering = self.entering.lock();
            self.claim(purpose)?
        };
        self.begin_now(claim, options, need)
    }

    /// Claims a writer for a session.
    pub(super) fn claim(&self, purpose: Purpose) -> Result<Claim> {
        if self.lock.is_none() {
            let why = "the pool is open for reading only";
            return Err(StoreError::new(StoreErrorKind::Invalid, why));
        }
        let mut head = self.head();
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

    pub(super) fn begin_now(
        &self,
        claim: Claim,
        options: LaneOptions,
        need: Need,
    ) -> Result<WriteSession> {
        let Claim { purpose, token, .. } = claim;
        if claim.recover {
            self.recover(purpose)?;
        }
        let head = self.head();
        let state = &head.writers[purpose as usize];
        let start = Start {
            generation: head.generation_highest.next(),
            writer: WRITERS[purpose as usize],
            need,
            next_sequence: Arc::clone(&state.next_sequence),
            parity_percent: self.parity(),
            token,
            adopted: state.adopted.clone(),
        };
        drop(head);
        WriteSession::new(
            self.media.clone(),
            self.config_now(),
            self.master.clone(),
            Arc::clone(&self.chunks),
            Arc::clone(&self.reader),
            start,
            options,
        )
    }

    /// Takes over a root that a failed commit put and could not make durable.
    pub(super) fn catch_up(&self) -> Result<()> {
        let (media, pool) = (&self.media, self.config.pool);
        // Makes all puts visible. Always fails after one of them has failed.
        media.blobs.barrier(Barrier::ContainersBeforeRoot)?;
        let notes = &mut Notes::new();
        let newest = newest_root(media, pool, self.sealing(), None, notes)?;
        let mut head = self.head();
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
        heal_root(media, pool, self.sealing(), newest.generation)?;
        self.chunks.enter_from(&known.next_sequence)
    }

    /// Returns true if a crashed session with this purpose left containers that no commit has
    /// entered yet.
    pub fn has_adopted(&self, purpose: Purpose) -> bool {
        !self.head().writers[purpose as usize].adopted.is_empty()
    }

    /// Enters the leftovers of dead sessions into the inventory, because garbage collection counts
    /// only containers in the inventory. Skips writers with an open session: the commit of that
    /// session enters them. Makes one commit for each writer with leftovers.
    pub(crate) fn enter_leftovers(&self) -> Result<()> {
        let _entering = self.entering.lock();
        for purpose in Purpose::ALL {
            let has_leftovers = {
                let head = self.head();
                let state = &head.writers[purpose as usize];
                state.session.strong_count() == 0
                    && (state.uncommitted || !state.adopted.is_empty())
            };
            if !has_leftovers {
                continue;
            }
            let claim = self.claim(purpose)?;
            let session = self.begin_now(claim, LaneOptions::metadata(), Need::Room)?;
            if self.has_adopted(purpose) {
                self.commit_with(purpose, |base| session.commit(base, Vec::new(), 0))?;
            }
        }
        Ok(())
    }

    /// Makes one commit on top of the newest root, whichever session made that one.
    pub fn commit_with(
        &self,
        purpose: Purpose,
        commit: impl FnOnce(Base) -> Result<Committed>,
    ) -> Result<Committed> {
        self.put_back_restored();
        let _committing = self.committing.lock();
        // Checkpoints wait for this commit, so it must not wait for I/O grants of maintenance.
        let is_maintenance = IoOrigin::current().origin.is_maintenance();
        let _io_origin = is_maintenance.then(|| IoOrigin::UNKNOWN.begin());
        if self.head().uncertain {
            self.catch_up()?;
        }
        let base = {
            let mut head = self.head();
            head.uncertain = true;
            Base {
                generation: head.generation_highest.next(),
                record: head.record.clone(),
            }
        };
        let committed = commit(base)?;
        let mut head = self.head();
        head.uncertain = false;
        head.generation = committed.generation;
        self.newest.store(committed.generation.0, Ordering::Relaxed);
        head.generation_highest = committed.generation;
        head.record = committed.record.clone();
        let state = &mut head.writers[purpose as usize];
        state.adopted.clear();
        state.uncommitted = false;
        drop(head);
        // The commit is durable even if the hints cannot be updated.
        let _ = self.settle_hints(committed.record.catalog);
        Ok(committed)
    }

    /// Returns true if a failed commit is known not to have taken effect: no root is newer than
    /// this generation.
    pub(crate) fn is_still_at(&self, generation: Generation) -> bool {
        let _committing = self.committing.lock();
        self.catch_up().is_ok() && self.head().generation == generation
    }

    /// Returns a new random snapshot id.
    pub fn new_snapshot_id(&self) -> SnapshotId {
        let mut id = SnapshotId::default();
        self.media.random.fill(&mut id.0);
        id
    }

    /// Returns the time of the pool's clock.
    pub fn now(&self) -> units::UnixNanos {
        self.media.clock.now()
    }

    /// Ends a session: adds and removes snapshots in one commit, durable on return.
    pub fn commit(
        &self,
        session: WriteSession,
        add: &[Snapshot],
        remove: &[Snapshot],
    ) -> Result<Committed> {
        let mut edits: Vec<_> = remove
            .iter()
            .map(|s| Edit {
                key: s.key(),
                value: None,
            })
            .collect();
        edits.extend(add.iter().map(|s| Edit {
            key: s.key(),
            value: Some(self.storable(s).encode()),
        }));
        let change = add.len() as i64 - remove.len() as i64;
        self.commit_with(Purpose::Snapshots, |base| {
            session.commit(base, edits, change)
        })
    }

    /// Adds and removes snapshots without storing data: forget, tag.
    pub fn change_snapshots(&self, add: &[Snapshot], remove: &[Snapshot]) -> Result<Committed> {
        let session = self.begin_for(Purpose::Snapshots, LaneOptions::metadata())?;
        self.commit(session, add, remove)
    }
}

impl LaneOptions {
    /// Returns options for commits without user data.
    pub fn metadata() -> Self {
        Self {
            compression: Compression::Zstd(1),
            region_bytes: 128 << 10,
            container_bytes: CONTAINER_BYTES_TARGET,
        }
    }
}
