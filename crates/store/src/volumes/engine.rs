//! What all open volumes share: journal, page cache, and the one round that may be under way.
//!
//! Invariant: the journal is trimmed only to where every write is in a committed root. One thread
//! works on a round at a time; others wait for it only when the journal is full. Called by
//! volumes, handles and whoever drives the steps.

use super::VolumesOptions;
use super::crowding::Pieces;
use super::decisions::{AccessOptions, Meters};
use super::direct::{DirectLanes, DirectLimits};
use super::fetcher::Fetcher;
use super::live::LiveVolume;
use super::restraint::Restraint;
use super::round::Member;
use super::tracing::Tracer;
use crate::catalog::Edit;
use crate::error::{Result, StoreError, StoreErrorKind};
use crate::journal::Journal;
use crate::pool::{Pool, Purpose};
use crate::write_path::{Committed, LaneOptions, WriteSession};
use format::volume::VolumeRecord;
use page_cache::PageCache;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;
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

/// When checkpoints begin and end (the syncer of DSS, SOSP'11: from 75 % dirty down to 25 %), in
/// percent of what the journal and the overlays may hold.
#[derive(Clone, Copy, Debug)]
pub struct Thresholds {
    /// Checkpoints begin here.
    pub start: u64,
    /// ... and go on until here.
    pub stop: u64,
    /// From here on writers help.
    pub help: u64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            start: 75,
            stop: 25,
            help: 90,
        }
    }
}

/// What checkpoints did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointCounts {
    /// Commits.
    pub rounds: u64,
    /// Bytes of chunks assembled.
    pub destaged_bytes: u64,
    /// Times that a writer found the journal full.
    pub full: u64,
}

/// A record of the catalog, and the volume that it is of.
pub(super) struct Registered {
    pub record: VolumeRecord,
    pub volume: Arc<LiveVolume>,
}

#[derive(Default)]
pub(super) struct Driver {
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
pub(super) type AtCommit<'a> =
    dyn FnMut(&mut BTreeMap<VolumeId, VolumeRecord>) -> (Vec<Edit>, i64) + 'a;

/// See the module's head.
pub(crate) struct Engine {
    pub pool: Arc<Pool>,
    pub journal: Journal,
    pub cache: PageCache,
    pub thresholds: Thresholds,
    pub lane: LaneOptions,
    /// What overlays hold, and may.
    pub pieces: Pieces,
    pub registry: Mutex<BTreeMap<VolumeId, Registered>>,
    pub driver: Mutex<Driver>,
    pub direct: DirectLanes,
    pub direct_limits: DirectLimits,
    pub access: AccessOptions,
    pub meters: Meters,
    pub fetcher: Fetcher,
    pub tracer: Tracer,
    pub restraint: Restraint,
    /// Written since the last flush.
    unflushed_bytes: AtomicU64,
    objects: AtomicU64,
    /// Held by who deduplicates and has not told the overlay yet.
    pub choosing: RwLock<()>,
    rounds: AtomicU64,
    destaged_bytes: AtomicU64,
    full: AtomicU64,
    /// Signalled when there is work for the driver.
    pressed: Mutex<bool>,
    work: Condvar,
}

impl Engine {
    pub fn new(
        pool: Arc<Pool>,
        journal: Journal,
        cache: PageCache,
        options: &VolumesOptions,
        pieces_max: u64,
    ) -> Self {
        let access = AccessOptions {
            // What was fetched and is not used yet must not push out what is.
            fetch_bytes_max: options
                .access
                .fetch_bytes_max
                .min(options.memory_bytes / 16),
            ..options.access
        };
        Self {
            pool,
            journal,
            cache,
            thresholds: options.thresholds,
            lane: options.lane,
            pieces: Pieces::new(pieces_max),
            registry: Mutex::default(),
            driver: Mutex::default(),
            direct: DirectLanes::default(),
            direct_limits: options.direct,
            access,
            meters: Meters::default(),
            fetcher: Fetcher::new(access.fetch_bytes_max),
            tracer: Tracer::new(access.switches.trace, options.memory_bytes / 128),
            restraint: Restraint::default(),
            unflushed_bytes: AtomicU64::new(0),
            objects: AtomicU64::new(1),
            choosing: RwLock::default(),
            rounds: AtomicU64::new(0),
            destaged_bytes: AtomicU64::new(0),
            full: AtomicU64::new(0),
            pressed: Mutex::new(false),
            work: Condvar::new(),
        }
    }

    /// A number for the page cache that no object had before.
    pub fn new_object(&self) -> u64 {
        self.objects.fetch_add(1, Ordering::Relaxed)
    }

    /// Held while chunks that are stored or found have no name in an overlay yet.
    pub fn choosing(&self) -> RwLockReadGuard<'_, ()> {
        self.choosing.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn counts(&self) -> CheckpointCounts {
        CheckpointCounts {
            rounds: self.rounds.load(Ordering::Relaxed),
            destaged_bytes: self.destaged_bytes.load(Ordering::Relaxed),
            full: self.full.load(Ordering::Relaxed),
        }
    }

    pub fn no_room() -> StoreError {
        let why = "the journal is full and cannot be emptied";
        StoreError::new(StoreErrorKind::Media(media::MediaErrorKind::NoSpace), why)
    }

    /// Returns when every acknowledged write survives power loss.
    pub fn flush(&self) -> Result<()> {
        self.unflushed_bytes.store(0, Ordering::Relaxed);
        self.direct.settle(self)?;
        self.journal.flush()
    }

    /// Counts a write. True when so much was written since the last flush that large ones may pass
    /// the journal by.
    pub fn is_streaming(&self, bytes: u64) -> bool {
        let before = self.unflushed_bytes.fetch_add(bytes, Ordering::Relaxed);
        before >= self.direct_limits.unflushed_bytes_min
    }

    /// There is work for the driver.
    pub fn press(&self) {
        *lock(&self.pressed) = true;
        self.work.notify_one();
    }

    /// A writer found no room.
    pub fn note_full(&self) {
        self.full.fetch_add(1, Ordering::Relaxed);
    }

    /// Rounds so far: read before an attempt to append, given to [`Self::make_room`] when it fails.
    pub fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Acquire)
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

    /// Waits until there is work, at most so long. True when there is.
    pub fn wait_for_work(&self, at_most: Duration) -> bool {
        let pressed = lock(&self.pressed);
        let (mut pressed, _) = self
            .work
            .wait_timeout_while(pressed, at_most, |pressed| !*pressed)
            .unwrap_or_else(|e| e.into_inner());
        std::mem::replace(&mut *pressed, false)
    }

    /// For shutting down: whoever waits for work stops waiting.
    pub fn wake(&self) {
        *lock(&self.pressed) = true;
        self.work.notify_all();
    }

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
    pub(super) fn needed_from(&self, head: JournalPosition) -> JournalPosition {
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
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
