//! Sessions of a pool: one at a time for each purpose, and the leftovers of sessions that did not
//! commit. The program calls this through `Pool`, and so do volumes, garbage collection and
//! defragmentation.
//!
//! Invariant: commits follow each other, each on top of the newest root. Each container number is
//! used once in a process. After a session that did not commit, only what is stored counts.

use super::Pool;
use super::commits::{Claim, Purpose};
use crate::recovery::WRITERS;
use crate::write_path::{Base, Committed, LaneOptions, Start, WriteSession};
use chunk_store::Result;
use chunk_store::catalog::Edit;
use chunk_store::container::CONTAINER_BYTES_TARGET;
use chunking::Compression;
use format::snapshot::Snapshot;
use media::{IoOrigin, Need};
use std::sync::Arc;
use units::SnapshotId;

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
            self.health.take_up_news();
        }
        let claim = {
            // `enter_leftovers` claims writers for a moment. With this lock a session is claimed
            // before that thread looks for writers without a session, or after it has finished.
            let _entering = self.commits.entering.lock();
            self.commits.claim(purpose)?
        };
        self.begin_now(claim, options, need)
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
        let head = self.commits.head();
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
            self.storage.media.clone(),
            self.storage.config_now(),
            self.storage.master.clone(),
            Arc::clone(&self.storage.chunks),
            Arc::clone(&self.storage.reader),
            start,
            options,
        )
    }

    /// Enters the leftovers of dead sessions into the inventory, because garbage collection counts
    /// only containers in the inventory. Skips writers with an open session: the commit of that
    /// session enters them. Makes one commit for each writer with leftovers.
    pub(crate) fn enter_leftovers(&self) -> Result<()> {
        let _entering = self.commits.entering.lock();
        for purpose in Purpose::ALL {
            let has_leftovers = {
                let head = self.commits.head();
                let state = &head.writers[purpose as usize];
                state.session.strong_count() == 0
                    && (state.uncommitted || !state.adopted.is_empty())
            };
            if !has_leftovers {
                continue;
            }
            let claim = self.commits.claim(purpose)?;
            let session = self.begin_now(claim, LaneOptions::metadata(), Need::Room)?;
            if self.commits.has_adopted(purpose) {
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
        self.health.put_back_restored();
        let _committing = self.commits.committing.lock();
        // Checkpoints wait for this commit, so it must not wait for I/O grants of maintenance.
        let is_maintenance = IoOrigin::current().origin.is_maintenance();
        let _io_origin = is_maintenance.then(|| IoOrigin::UNKNOWN.begin());
        let committed = self.commits.commit(purpose, commit)?;
        // The commit is durable even if the hints cannot be updated.
        let _ = self.health.settle_hints(committed.record.catalog);
        Ok(committed)
    }

    /// Returns a new random snapshot id.
    pub fn new_snapshot_id(&self) -> SnapshotId {
        let mut id = SnapshotId::default();
        self.storage.media.random.fill(&mut id.0);
        id
    }

    /// Returns the time of the pool's clock.
    pub fn now(&self) -> units::UnixNanos {
        self.storage.media.clock.now()
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
