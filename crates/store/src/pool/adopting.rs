//! Takes up what sessions that did not commit have stored: when a pool is opened for writing, and
//! before a session whose last one did not commit. `Pool` and its sessions call this.
//!
//! ```text
//! list -> verify a container ... -> after each step: commit them -> ... -> the rest: next commit
//! ```
//!
//! Invariant: a container is verified before anything new refers to it and before the inventory has
//! it. What was verified is verified once: the steps are committed, so that an interruption costs
//! one step at most.

use super::{Pool, Purpose};
use crate::recovery::{WRITERS, adopt, left_by};
use crate::write_path::LaneOptions;
use chunk_store::catalog::InventoryEntry;
use chunk_store::superblock::Notes;
use chunk_store::{Result, StoreError, StoreErrorKind};
use media::Need;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use units::ContainerId;

/// Bytes that are verified before a commit remembers it: about a second's work.
const STEP_BYTES: u64 = 256 << 20;
/// The rest is remembered if it has at least this part of a step; less is verified again.
const REST_PART: u64 = 4;

/// Called before each container with the bytes that were read and those of all of them; it can stop
/// the opening, which then fails with `Interrupted`.
pub struct Watch {
    step_bytes: u64,
    look: Box<dyn FnMut(u64, u64) -> ControlFlow<()> + Send>,
}

impl Default for Watch {
    fn default() -> Self {
        Self::new(|_, _| ControlFlow::Continue(()))
    }
}

impl Watch {
    /// See [`Watch`].
    pub fn new(look: impl FnMut(u64, u64) -> ControlFlow<()> + Send + 'static) -> Self {
        Self {
            step_bytes: STEP_BYTES,
            look: Box::new(look),
        }
    }

    /// Sets after how many bytes a commit remembers the containers that were verified.
    pub fn in_steps_of(self, step_bytes: u64) -> Self {
        Self { step_bytes, ..self }
    }
}

impl Pool {
    /// Verifies and enters the containers that crashed sessions left, for each writer. Only while
    /// the pool is opened.
    pub(super) fn adopt_all(
        &mut self,
        left: &[Vec<(ContainerId, u64)>],
        watch: &mut Watch,
    ) -> Result<()> {
        let total = left.iter().flatten().map(|(_, bytes)| bytes).sum();
        // A writer that has left nothing remembers the steps of the others.
        let mut remembers = Purpose::ALL
            .into_iter()
            .rev()
            .find(|purpose| left.get(*purpose as usize).is_some_and(Vec::is_empty));
        let mut done = 0;
        let mut notes = std::mem::take(&mut self.health.notes);
        for (purpose, of_writer) in Purpose::ALL.into_iter().zip(left) {
            let (mut entries, mut step) = (Vec::new(), 0);
            for (nth, (id, bytes)) in of_writer.iter().enumerate() {
                if (watch.look)(done, total).is_break() {
                    return Err(StoreError::new(StoreErrorKind::Interrupted, ""));
                }
                entries.extend(self.adopt_one(*id, &mut notes)?);
                (done, step) = (done + bytes, step + bytes);
                let is_last = nth + 1 == of_writer.len();
                let enough = match is_last {
                    true => watch.step_bytes / REST_PART,
                    false => watch.step_bytes,
                };
                if step < enough {
                    continue;
                }
                if let Some(by) = remembers {
                    match self.remember(by, purpose, &entries, *id) {
                        Ok(()) => (entries, step) = (Vec::new(), 0),
                        // They will be verified again. A full disk must not prevent the opening.
                        Err(e) if e.is_full() => remembers = None,
                        Err(e) => return Err(e),
                    }
                }
            }
            self.commits.head().writers[purpose as usize].adopted = entries;
        }
        self.health.notes = notes;
        Ok(())
    }

    /// Commits verified containers of a writer, up to `last`, by another writer: a commit of its
    /// own would be above those that are not verified yet.
    fn remember(
        &self,
        by: Purpose,
        of: Purpose,
        entries: &[InventoryEntry],
        last: ContainerId,
    ) -> Result<()> {
        self.commits.head().writers[by as usize].adopted = entries.to_vec();
        let committed = self.commits.claim(by).and_then(|claim| {
            let session = self.begin_now(claim, LaneOptions::metadata(), Need::Room)?;
            self.commit_with(by, |mut base| {
                let mark = base.record.next_sequence.entry(WRITERS[of as usize]);
                let mark = mark.or_insert(0);
                *mark = (*mark).max(last.sequence() + 1);
                session.commit(base, Vec::new(), 0)
            })
        });
        if committed.is_err() {
            self.commits.head().writers[by as usize].adopted.clear();
        }
        committed.map(drop)
    }

    fn adopt_one(&self, id: ContainerId, notes: &mut Notes) -> Result<Option<InventoryEntry>> {
        let (media, containers) = (&self.storage.media, &self.storage.containers);
        let is_described_only = self.is_described_only(id);
        adopt(
            media,
            id,
            is_described_only,
            containers,
            &self.storage.chunks,
            notes,
        )
    }

    /// Finds the leftovers of a session of this process that did not commit, as after a crash.
    pub(super) fn recover(&self, purpose: Purpose) -> Result<()> {
        let _committing = self.commits.committing.lock();
        self.commits.catch_up()?;
        let left = left_by(
            &self.storage.media,
            WRITERS[purpose as usize],
            &self.record(),
        )?;
        let mut entries = Vec::new();
        for (id, _) in left.containers {
            entries.extend(self.adopt_one(id, &mut Notes::new())?);
        }
        let mut head = self.commits.head();
        let state = &mut head.writers[purpose as usize];
        state
            .next_sequence
            .fetch_max(left.next_sequence, Ordering::Relaxed);
        state.adopted = entries;
        Ok(())
    }
}
