//! Sessions of a pool: one at a time for each purpose, and what one leaves that did not commit.
//!
//! Invariant: commits follow each other, each on top of the newest root; a container number is given once in a process; after a session that did not commit
//! nothing is believed but what is stored. Called by the program through `Pool`.

use super::Pool;
use super::holds::Hold;
use crate::recovery::{WRITERS, adopt};
use crate::write_path::{Base, Committed, LaneOptions, Start, WriteSession};
use chunk_store::catalog::Edit;
use chunk_store::container::CONTAINER_BYTES_TARGET;
use chunk_store::superblock::{Notes, heal_root, newest_root};
use chunk_store::{Result, StoreError, StoreErrorKind};
use chunking::Compression;
use format::snapshot::Snapshot;
use media::{Asker, Barrier, Need};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use units::{Generation, SnapshotId};

/// Whose session: an index into the pool's writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Backups, imports and all short commits.
    Snapshots = 0,
    /// Checkpoints of volumes; lives as long as they are open.
    Volumes = 1,
    /// Large writes to volumes; likewise.
    Direct = 2,
    /// What the collector copies, and its commits.
    Collect = 3,
    /// What defragmentation copies, and its commits.
    Defragment = 4,
}

impl Purpose {
    /// In the order of the pool's writers.
    const ALL: [Self; WRITERS.len()] = [
        Self::Snapshots,
        Self::Volumes,
        Self::Direct,
        Self::Collect,
        Self::Defragment,
    ];
}

/// A writer that is a session's own from now on.
struct Claim {
    purpose: Purpose,
    token: Arc<Option<Hold>>,
    /// True when the writer's last session did not commit.
    recover: bool,
}

impl Pool {
    /// Starts a session. One at a time; the pool must be open for writing. What it stores is new:
    /// `NoSpace` before it takes what is kept for recovery.
    pub fn begin(&self, options: LaneOptions) -> Result<WriteSession> {
        self.begin_with(Purpose::Snapshots, options, Need::New)
    }

    /// Starts one that may take of the reserve what its purpose needs.
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
            // Whoever enters leftovers is no session that another one is refused for: claimed
            // before that thread looks for writers without a session, or after it has ended.
            let _entering = self.entering.lock();
            self.claim(purpose)?
        };
        self.begin_now(claim, options, need)
    }

    /// Makes a writer this session's own.
    fn claim(&self, purpose: Purpose) -> Result<Claim> {
        if self.lock.is_none() {
            let why = "the pool was opened for reading";
            return Err(StoreError::new(StoreErrorKind::Invalid, why));
        }
        let mut head = self.head();
        let held = purpose == Purpose::Snapshots;
        let hold = held.then(|| self.holds.take(head.generation));
        let token = Arc::new(hold);
        let state = &mut head.writers[purpose as usize];
        if state.session.strong_count() > 0 {
            let why = "another session of this process is open";
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

    fn begin_now(&self, claim: Claim, options: LaneOptions, need: Need) -> Result<WriteSession> {
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
            self.config.clone(),
            self.master.clone(),
            Arc::clone(&self.chunks),
            Arc::clone(&self.reader),
            start,
            options,
        )
    }

    /// Finds what a session of this process left that did not commit, as after a crash.
    fn recover(&self, purpose: Purpose) -> Result<()> {
        let _committing = self.committing.lock();
        self.catch_up()?;
        let record = self.record();
        let notes = &mut Notes::new();
        let writer = WRITERS[purpose as usize];
        let (media, chunks) = (&self.media, &self.chunks);
        let adopted = adopt(media, writer, &record, &self.containers, chunks, notes)?;
        let mut head = self.head();
        let state = &mut head.writers[purpose as usize];
        state
            .next_sequence
            .fetch_max(adopted.next_sequence, Ordering::Relaxed);
        state.adopted = adopted.entries;
        Ok(())
    }

    /// Takes over a root that a failed commit put and could not make durable.
    fn catch_up(&self) -> Result<()> {
        let (media, pool) = (&self.media, self.config.pool);
        // All puts are visible then; fails for ever when one of them failed.
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

    /// True when a crashed session of this kind left containers that no commit has entered yet.
    pub fn has_adopted(&self, purpose: Purpose) -> bool {
        !self.head().writers[purpose as usize].adopted.is_empty()
    }

    /// Enters into the inventory what sessions of this process and of dead ones left that did not commit, so that the
    /// collector sees it: it counts only what the inventory names. Passes over writers whose session is open: their
    /// commit enters theirs. One commit for each writer that left something, and none if nobody did.
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

    /// Makes one commit on top of the newest root, whoever made that.
    pub fn commit_with(
        &self,
        purpose: Purpose,
        commit: impl FnOnce(Base) -> Result<Committed>,
    ) -> Result<Committed> {
        self.put_back_restored();
        let _committing = self.committing.lock();
        // Checkpoints wait for who commits: no turns of maintenance now.
        let is_maintenance = Asker::current().origin.is_maintenance();
        let _asking = is_maintenance.then(|| Asker::UNKNOWN.begin());
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
        // The commit stands whatever becomes of hints.
        let _ = self.settle_hints(committed.record.catalog);
        Ok(committed)
    }

    /// True when a commit that failed is known not to stand: no root came after this one.
    pub(crate) fn is_still_at(&self, generation: Generation) -> bool {
        let _committing = self.committing.lock();
        self.catch_up().is_ok() && self.head().generation == generation
    }

    /// A fresh random id for a snapshot.
    pub fn new_snapshot_id(&self) -> SnapshotId {
        let mut id = SnapshotId::default();
        self.media.random.fill(&mut id.0);
        id
    }

    /// Now, by the pool's clock.
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
            value: Some(s.encode()),
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
    /// For commits that store no user data.
    pub fn metadata() -> Self {
        Self {
            compression: Compression::Zstd(1),
            region_bytes: 128 << 10,
            container_bytes: CONTAINER_BYTES_TARGET,
        }
    }
}
