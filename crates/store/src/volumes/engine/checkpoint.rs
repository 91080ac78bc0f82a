//! Rounds: checkpoints of all volumes that are dirty, or of one that changes.
//!
//! Invariant: one thread works on a round at a time, and after a failure the round is done again from its
//! start; the journal is trimmed only to where every write is in a committed root. Called by whoever drives
//! the steps, by writers who help, and where names of volumes change.

use super::{Engine, lock};
use crate::catalog::Edit;
use crate::error::{Result, StoreError, StoreErrorKind};
use crate::pool::Purpose;
use crate::volumes::live::LiveVolume;
use crate::volumes::round::Member;
use crate::write_path::{Committed, WriteSession};
use format::volume::VolumeRecord;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use units::{JournalPosition, VolumeId};

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There was nothing to do.
    Idle,
    /// There is more to do.
    Working,
    /// A checkpoint was committed.
    Committed,
}

#[derive(Default)]
pub(in crate::volumes) struct Driver {
    pub session: Option<WriteSession>,
    round: Option<Round>,
}

impl Driver {
    /// Of the round that is under way.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.round.iter().flat_map(|round| &round.members)
    }
}

struct Round {
    members: Vec<Member>,
    /// The journal's head before the first freeze.
    head: JournalPosition,
    /// Members before this one are destaged.
    at: usize,
}

/// What goes into a round's commit besides the new roots.
pub(in crate::volumes) type AtCommit<'a> =
    dyn FnMut(&mut BTreeMap<VolumeId, VolumeRecord>) -> (Vec<Edit>, i64) + 'a;

impl Engine {
    /// A bounded piece of a checkpoint; begins one when there is anything to fold.
    pub fn step(&self, budget: u64) -> Result<Step> {
        self.step_with(&mut lock(&self.driver), budget)
    }

    pub fn step_with(&self, driver: &mut Driver, budget: u64) -> Result<Step> {
        if driver.round.is_none() {
            let head = self.journal.head();
            let dirty: Vec<_> = lock(&self.registry)
                .values()
                .map(|r| Arc::clone(&r.volume))
                .filter(|v| !v.state().active.is_empty())
                .collect();
            if dirty.is_empty() {
                return Ok(Step::Idle);
            }
            let members = dirty.into_iter().map(|v| Member::freeze(self, v, None));
            driver.round = Some(Round {
                members: members.collect(),
                head,
                at: 0,
            });
        }
        let result = self.advance(driver, budget, &mut |_| (Vec::new(), 0));
        self.settle(driver, result)
    }

    /// Finishes the round under way, then makes one for `volume` alone, with more in its commit.
    pub fn checkpoint_of(
        &self,
        driver: &mut Driver,
        volume: &Arc<LiveVolume>,
        len: Option<u64>,
        at_commit: &mut AtCommit<'_>,
    ) -> Result<()> {
        while driver.round.is_some() {
            self.step_with(driver, u64::MAX)?;
        }
        let head = self.journal.head();
        driver.round = Some(Round {
            members: vec![Member::freeze(self, Arc::clone(volume), len)],
            head,
            at: 0,
        });
        let result = self.advance(driver, u64::MAX, at_commit);
        let result = self.settle(driver, result);
        if result.is_err()
            && let Some(round) = driver.round.take()
        {
            // The change did not happen: what was frozen for it goes on as before.
            round.members.into_iter().for_each(Member::thaw);
        }
        result.map(drop)
    }

    /// After a failure nothing of the session is believed: the round is done again from its start.
    fn settle(&self, driver: &mut Driver, result: Result<Step>) -> Result<Step> {
        if result.is_err() {
            driver.session = None;
            if let Some(round) = &mut driver.round {
                round.at = 0;
                for member in &mut round.members {
                    let cuts = member.cuts();
                    member.start_over(cuts);
                }
            }
        }
        result
    }

    fn advance(
        &self,
        driver: &mut Driver,
        budget: u64,
        at_commit: &mut AtCommit<'_>,
    ) -> Result<Step> {
        let session = self.session(&mut driver.session)?;
        let Some(round) = &mut driver.round else {
            return Ok(Step::Idle);
        };
        while let Some(member) = round.members.get_mut(round.at) {
            let before = session.counts().logical_bytes;
            let done = member.destage(self, session.main(), budget)?;
            let bytes = session.counts().logical_bytes - before;
            self.destaged_bytes.fetch_add(bytes, Ordering::Relaxed);
            if !done {
                return Ok(Step::Working);
            }
            round.at += 1;
            if budget < u64::MAX {
                return Ok(Step::Working);
            }
        }
        let needed = self.finish(session, round, at_commit)?;
        driver.round = None;
        self.journal.trim(needed);
        self.rounds.fetch_add(1, Ordering::Release);
        Ok(Step::Committed)
    }

    /// Folds, commits, and lets the volumes read through their new roots. Returns from where on
    /// the committed root needs the journal.
    fn finish(
        &self,
        session: &mut WriteSession,
        round: &mut Round,
        at_commit: &mut AtCommit<'_>,
    ) -> Result<JournalPosition> {
        let mut records = BTreeMap::new();
        let mut roots = Vec::new();
        for member in &round.members {
            let root = member.fold(self, session)?;
            let registry = lock(&self.registry);
            // Deleted meanwhile: its chunks are garbage, its record must not come back.
            if let Some(registered) = registry.get(&member.volume.id) {
                let mut record = registered.record.clone();
                record.root = root;
                record.folded = member.folded;
                records.insert(member.volume.id, record);
            }
            roots.push(root);
        }
        // Before a root reaches what was stored directly.
        self.direct.commit(self)?;
        let (mut edits, entries_change) = at_commit(&mut records);
        edits.extend(records.values().map(|record| Edit {
            key: record.key(),
            value: Some(record.encode()),
        }));
        let needed = self.needed_from(round.head);
        self.commit(session, edits, entries_change, Some(needed))?;
        let mut registry = lock(&self.registry);
        for (id, record) in records {
            if let Some(registered) = registry.get_mut(&id) {
                registered.record = record;
            }
        }
        drop(registry);
        for (member, root) in std::mem::take(&mut round.members).into_iter().zip(roots) {
            member.unfreeze(self, root);
        }
        Ok(needed)
    }

    /// Lowest position that replay needs, once everything below `head` that is frozen now is folded.
    /// A write may have its position below `head` and not be in its overlay yet: it is waited for.
    pub fn needed_from(&self, head: JournalPosition) -> JournalPosition {
        let volumes: Vec<_> = lock(&self.registry)
            .values()
            .map(|r| Arc::clone(&r.volume))
            .collect();
        let first = |volume: Arc<LiveVolume>| {
            drop(volume.shut());
            volume.state().active.first_position()
        };
        volumes.into_iter().filter_map(first).fold(head, Ord::min)
    }

    /// One commit of the volumes' session.
    pub fn commit(
        &self,
        session: &mut WriteSession,
        edits: Vec<Edit>,
        entries_change: i64,
        journal_from: Option<JournalPosition>,
    ) -> Result<Committed> {
        self.pool.commit_with(Purpose::Volumes, |mut base| {
            if let Some(from) = journal_from {
                base.record.journal_position = from.0;
            }
            session.commit_more(base, edits, entries_change, &mut [])
        })
    }

    /// After a commit that failed: the next one starts from what is stored.
    pub fn forget_session(&self, driver: &mut Driver) {
        let failed = StoreError::new(StoreErrorKind::Invalid, "commit failed");
        let _ = self.settle(driver, Err(failed));
    }

    pub fn session<'a>(&self, slot: &'a mut Option<WriteSession>) -> Result<&'a mut WriteSession> {
        if slot.is_none() {
            *slot = Some(self.pool.begin_for(Purpose::Volumes, self.lane)?);
        }
        let none = || StoreError::new(StoreErrorKind::Invalid, "no session");
        slot.as_mut().ok_or_else(none)
    }

    /// Nothing is dirty, and yet the journal is full: of records of volumes that were deleted, and
    /// of slots that processes began before they died. A root says that nobody needs them.
    pub fn drop_unneeded(&self, driver: &mut Driver) -> Result<()> {
        let before = self.journal.usage().used_bytes;
        driver.round = Some(Round {
            members: Vec::new(),
            head: self.journal.head(),
            at: 0,
        });
        self.step_with(driver, u64::MAX)?;
        match self.journal.usage().used_bytes < before {
            true => Ok(()),
            false => Err(Self::no_room()),
        }
    }
}
