//! Checkpoints of all volumes with new writes, or of one that changes.
//!
//! ```text
//! freeze overlays ─> destage, in steps ─> apply to recipes ─> commit ─> trim the journal
//!        └─ failure: start over; full disk: thaw        └─ damaged: carry forward
//! ```
//!
//! The driver of checkpoints, writers that help, and administration call this.
//! Invariant: one thread at a time works on a checkpoint. After a failure it starts over. The
//! journal is trimmed only below the first write that no committed root holds. On a full disk a
//! checkpoint takes what fits and leaves the space that garbage collection and deletion need.

mod carrying;
mod round;
mod signal;

use super::backing::Backing;
use super::direct::DirectLanes;
use super::levels::Levels;
use super::live::LiveVolume;
use super::losses::Losses;
use super::registry::Registry;
use super::room::Room;
use chunk_store::catalog::{Discarded, Edit, Forgotten};
use format::recipe::ObjectRoot;
use format::snapshot::Snapshot;
use format::volume::VolumeRecord;
use parking_lot::Mutex;
use round::{Limits, Member};
use signal::Signal;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use store::Purpose as CommitPurpose;
use store::{Committed, WriteSession};
use store::{Result, StoreError, StoreErrorKind};
use units::{JournalPosition, VolumeId};

/// Counters of checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointCounts {
    /// Number of commits.
    pub rounds: u64,
    /// Bytes of destaged chunks.
    pub destaged_bytes: u64,
    /// How often a writer found the journal full.
    pub full: u64,
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointStep {
    /// There was nothing to do.
    Idle,
    /// There is more to do.
    Working,
    /// A checkpoint was committed.
    Committed,
}

#[derive(Default)]
pub(super) struct Driver {
    pub session: Option<WriteSession>,
    round: Option<Round>,
    /// Head of the journal after the last checkpoint that had to trim it.
    trimmed: Option<JournalPosition>,
}

impl Driver {
    /// Returns the volumes of the running checkpoint.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.round.iter().flat_map(|round| &round.members)
    }
}

struct Round {
    members: Vec<Member>,
    /// Head of the journal before the first freeze.
    head: JournalPosition,
    /// Members before this index are destaged.
    at: usize,
    purpose: Purpose,
    limits: Limits,
}

/// Purpose of a checkpoint. It decides what happens to writes that cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Take new writes. Writes that cannot be taken stay in the journal.
    Take,
    /// Trim the journal too: writes that cannot be taken are carried forward.
    Trim,
    /// Change the volume. Writes that cannot be taken are carried forward.
    Change,
    /// Make a root that holds everything: a write that cannot be taken is an error.
    Exact,
}

/// Adds to a checkpoint's commit: may change the records. Returns more edits and by how much they
/// change the number of snapshots.
pub(super) type AtCommit<'a> = dyn FnMut(&mut BTreeMap<VolumeId, VolumeRecord>) -> Entries + 'a;

/// Changes of the catalog that belong to a commit.
#[derive(Default)]
pub(super) struct Entries {
    /// A snapshot that comes into the list.
    pub listed: Option<Snapshot>,
    /// A snapshot that comes into the trash, from where it can be taken back.
    pub trashed: Option<Snapshot>,
    /// Other edits.
    pub edits: Vec<Edit>,
}

/// State of checkpoints. See the module's head.
pub(super) struct Checkpointer {
    backing: Arc<Backing>,
    levels: Arc<Levels>,
    room: Arc<Room>,
    direct: Arc<DirectLanes>,
    registry: Arc<Registry>,
    losses: Arc<Losses>,
    /// Held for a step. A writer that finds no space waits for it.
    pub driver: Mutex<Driver>,
    /// Wakes the driver of checkpoints.
    pub signal: Signal,
    rounds: AtomicU64,
    destaged_bytes: AtomicU64,
    full: AtomicU64,
}

impl Checkpointer {
    pub fn new(
        backing: Arc<Backing>,
        levels: Arc<Levels>,
        room: Arc<Room>,
        direct: Arc<DirectLanes>,
        registry: Arc<Registry>,
        losses: Arc<Losses>,
    ) -> Self {
        Self {
            backing,
            levels,
            room,
            direct,
            registry,
            losses,
            driver: Mutex::default(),
            signal: Signal::default(),
            rounds: AtomicU64::new(0),
            destaged_bytes: AtomicU64::new(0),
            full: AtomicU64::new(0),
        }
    }

    pub fn counts(&self) -> CheckpointCounts {
        CheckpointCounts {
            rounds: self.rounds.load(Ordering::Relaxed),
            destaged_bytes: self.destaged_bytes.load(Ordering::Relaxed),
            full: self.full.load(Ordering::Relaxed),
        }
    }

    /// Counts a writer that found no space.
    pub fn note_full(&self) {
        self.full.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of checkpoints. Writers read it before they append and pass it to
    /// `make_room` if the append fails.
    pub fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Acquire)
    }

    pub fn no_room() -> StoreError {
        StoreError::no_space("the journal is full, and no checkpoint can empty it")
    }

    /// Does a bounded part of a checkpoint. Begins one if there are new writes.
    pub fn step(&self, budget: u64) -> Result<CheckpointStep> {
        self.step_with(&mut self.driver.lock(), budget)
    }

    pub fn step_with(&self, driver: &mut Driver, budget: u64) -> Result<CheckpointStep> {
        self.step_within(driver, budget, None)
    }

    /// Like `step`, but a checkpoint that begins stores at most `room` bytes; `None`: as many as
    /// the disk has space for.
    pub fn step_within(
        &self,
        driver: &mut Driver,
        budget: u64,
        room: Option<u64>,
    ) -> Result<CheckpointStep> {
        if driver.round.is_none() {
            let full = self.levels.wants_checkpoint(false);
            // A checkpoint that could not free journal space is not repeated until the journal
            // grows.
            let purpose = match full && driver.trimmed != Some(self.backing.journal.head()) {
                true => Purpose::Trim,
                false => Purpose::Take,
            };
            let dirty = self.dirty(purpose);
            if dirty.is_empty() {
                return Ok(CheckpointStep::Idle);
            }
            let room = match room {
                Some(room) => room,
                None => self.room.of_round()?,
            };
            let hold = self.hold_of_round();
            driver.round = Some(self.begin(dirty, purpose, Limits { room, hold }));
        }
        let result = self.advance(driver, budget, &mut |_| Entries::default());
        self.settle(driver, result)
    }

    /// Returns the volumes that have writes for a checkpoint.
    fn dirty(&self, purpose: Purpose) -> Vec<Arc<LiveVolume>> {
        let wanted = |volume: &Arc<LiveVolume>| {
            let state = volume.state();
            // Writes that could not be taken are tried again only to trim the journal.
            state.fresh || purpose == Purpose::Trim && state.active.first_position().is_some()
        };
        let registry = self.registry.lock();
        let volumes = registry.values().map(|r| Arc::clone(&r.volume));
        volumes.filter(wanted).collect()
    }

    fn begin(&self, volumes: Vec<Arc<LiveVolume>>, purpose: Purpose, limits: Limits) -> Round {
        let head = self.backing.journal.head();
        let members = volumes.into_iter().map(|v| self.freeze(v, None));
        Round {
            members: members.collect(),
            head,
            at: 0,
            purpose,
            limits,
        }
    }

    /// Returns how many bytes of important writes a checkpoint that begins may leave in the
    /// journal: half of what may be there when checkpoints stop. None if the journal is too full to
    /// append them again, or so empty that the user or an idle server wants everything stored.
    fn hold_of_round(&self) -> u64 {
        let is_wanted = self.backing.access.switches.checkpoint_by_class
            && self.levels.wants_checkpoint(true)
            && !self.levels.is_pressed();
        match is_wanted {
            true => self.levels.may_stay_bytes() / 2,
            false => 0,
        }
    }

    fn freeze(&self, volume: Arc<LiveVolume>, len: Option<u64>) -> Member {
        Member::freeze(&self.backing, &self.levels.pieces.frozen, volume, len)
    }

    /// Aborts the running checkpoint: the volumes are as before it.
    pub fn give_up_round(&self, driver: &mut Driver) {
        driver.session = None;
        if let Some(round) = driver.round.take() {
            round.members.into_iter().for_each(|m| m.thaw(false));
        }
    }

    /// Finishes the running checkpoint, then makes one of `volume` alone. `at_commit` adds to its
    /// commit.
    pub fn checkpoint_of(
        &self,
        driver: &mut Driver,
        volume: &Arc<LiveVolume>,
        len: Option<u64>,
        at_commit: &mut AtCommit<'_>,
    ) -> Result<()> {
        let purpose = match len {
            Some(_) => Purpose::Change,
            None => Purpose::Exact,
        };
        while driver.round.is_some() {
            self.step_with(driver, u64::MAX)?;
        }
        let head = self.backing.journal.head();
        driver.round = Some(Round {
            members: vec![self.freeze(Arc::clone(volume), len)],
            head,
            at: 0,
            purpose,
            limits: Limits::NONE,
        });
        let result = self.advance(driver, u64::MAX, at_commit);
        let result = self.settle(driver, result);
        if result.is_err() {
            // The change did not happen: the frozen writes become active again.
            self.give_up_round(driver);
        }
        result.map(drop)
    }

    /// Handles a step's failure. The session's state is unknown, so the checkpoint starts over; on
    /// a full disk it is aborted, because the next one may have less space.
    fn settle(
        &self,
        driver: &mut Driver,
        result: Result<CheckpointStep>,
    ) -> Result<CheckpointStep> {
        if result.as_ref().is_err_and(StoreError::is_full) {
            self.give_up_round(driver);
        }
        if result.is_err() {
            driver.session = None;
            if let Some(round) = &mut driver.round {
                round.at = 0;
                // Holding back needs room in the journal. That may have been the reason.
                round.limits.hold = 0;
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
    ) -> Result<CheckpointStep> {
        let session = self.session(&mut driver.session)?;
        let Some(round) = &mut driver.round else {
            return Ok(CheckpointStep::Idle);
        };
        while let Some(member) = round.members.get_mut(round.at) {
            let before = session.counts().logical_bytes;
            let done = member.destage(session.main(), budget, &mut round.limits)?;
            let bytes = session.counts().logical_bytes - before;
            self.destaged_bytes.fetch_add(bytes, Ordering::Relaxed);
            if !done {
                return Ok(CheckpointStep::Working);
            }
            round.at += 1;
            if budget < u64::MAX {
                return Ok(CheckpointStep::Working);
            }
        }
        let needed = self.finish(session, round, at_commit)?;
        if round.purpose == Purpose::Trim {
            driver.trimmed = Some(self.backing.journal.head());
        }
        driver.round = None;
        self.count_kept();
        let Some(needed) = needed else {
            return Ok(CheckpointStep::Idle);
        };
        self.backing.journal.trim(needed);
        self.rounds.fetch_add(1, Ordering::Release);
        Ok(CheckpointStep::Committed)
    }

    /// Applies the writes, commits, and switches the volumes to their new roots. Returns the
    /// position from which the committed root needs the journal; `None` if there was nothing to
    /// commit.
    fn finish(
        &self,
        session: &mut WriteSession,
        round: &mut Round,
        at_commit: &mut AtCommit<'_>,
    ) -> Result<Option<JournalPosition>> {
        let mut records = BTreeMap::new();
        let mut roots = Vec::new();
        let members = round.members.len();
        Self::put_back_untouched(round);
        if round.members.is_empty() && members > 0 {
            return Ok(None);
        }
        for member in &mut round.members {
            roots.push(self.apply(session, member, round.purpose)?);
        }
        self.put_back(round, &mut roots);
        if round.members.is_empty() && round.purpose == Purpose::Take {
            return Ok(None);
        }
        let mut carried = false;
        for member in &round.members {
            carried |= member.carry(&self.losses)?;
        }
        let is_part = round.members.iter().any(Member::is_part);
        if carried || is_part {
            // The commit makes replay skip the old records of carried writes, and of newer writes
            // to the same ranges. If a member is taken in part, its rest is replayed together with
            // everything after it, or not at all.
            self.backing.journal.flush()?;
        }
        let mut applied_all = round.head;
        for (member, root) in round.members.iter().zip(&roots) {
            let applied = member.applied();
            applied_all = applied_all.min(applied);
            let root = root.unwrap_or_else(|| member.volume.state().root);
            let registry = self.registry.lock();
            // If the volume was deleted meanwhile, its chunks are garbage and its record must not
            // return.
            if let Some(registered) = registry.get(&member.volume.id) {
                let mut record = registered.record.clone();
                record.root = root;
                record.applied = applied;
                records.insert(member.volume.id, record);
            }
        }
        // A root must not refer to containers that the pool does not list.
        self.direct.commit()?;
        let mut entries = at_commit(&mut records);
        entries.edits.extend(records.values().map(|record| Edit {
            key: record.key(),
            value: Some(record.encode()),
        }));
        let needed = self.registry.needed_from(applied_all);
        self.commit(session, entries, Some(needed))?;
        let mut registry = self.registry.lock();
        for (id, record) in records {
            if let Some(registered) = registry.get_mut(&id) {
                registered.record = record;
            }
        }
        drop(registry);
        for (member, root) in std::mem::take(&mut round.members).into_iter().zip(roots) {
            let (volume, kept) = (Arc::clone(&member.volume), member.kept());
            let root = root.unwrap_or_else(|| volume.state().root);
            member.unfreeze(root);
            volume.note_kept(kept);
        }
        Ok(Some(needed))
    }

    /// Returns the member's new root; `None` if nothing of it can be taken and the old root stays.
    fn apply(
        &self,
        session: &mut WriteSession,
        member: &mut Member,
        purpose: Purpose,
    ) -> Result<Option<ObjectRoot>> {
        let root = member.apply(session)?;
        let resizes = member.len != member.volume.state().size;
        match member.kept() {
            Some(kept) if purpose == Purpose::Exact || (resizes && root.is_none()) => {
                let (from, to) = kept.ranges.first().map_or((0, 0), |r| (r.start, r.end));
                let name = self.registry.name_of(&member.volume.id);
                let place = format!("{name} bytes {from} to {to}");
                let found = format!("a checkpoint cannot apply the writes there: {}", kept.why);
                Err(StoreError::corruption("volume", place, found))
            }
            _ => Ok(root),
        }
    }

    /// Removes members of which nothing can be taken, unless the journal must be trimmed.
    fn put_back(&self, round: &mut Round, roots: &mut Vec<Option<ObjectRoot>>) {
        if round.purpose != Purpose::Take {
            return;
        }
        let members = std::mem::take(&mut round.members).into_iter();
        for (member, root) in members.zip(std::mem::take(roots)) {
            match member.kept() {
                Some(kept) if member.is_without_edits() => {
                    let volume = Arc::clone(&member.volume);
                    member.thaw(true);
                    volume.note_kept(Some(kept));
                }
                _ => {
                    round.members.push(member);
                    roots.push(root);
                }
            }
        }
        round.at = round.members.len();
    }

    /// Removes members for which there was no space at all.
    fn put_back_untouched(round: &mut Round) {
        let is_untouched = |member: &Member| {
            member.is_part() && member.is_without_edits() && member.kept().is_none()
        };
        for member in std::mem::take(&mut round.members) {
            match is_untouched(&member) {
                true => member.thaw(false),
                false => round.members.push(member),
            }
        }
        round.at = round.members.len();
    }

    /// Counts again what volumes could not checkpoint. Called after that changed.
    pub fn count_kept(&self) {
        let (mut bytes, mut pieces) = (0, 0);
        for registered in self.registry.lock().values() {
            if let Some(kept) = &registered.volume.state().kept {
                bytes += kept.bytes;
                pieces += kept.pieces;
            }
        }
        self.backing.journal.set_kept(bytes);
        self.levels.pieces.set_kept(pieces);
    }

    /// Makes one commit of the volumes' session.
    pub fn commit(
        &self,
        session: &mut WriteSession,
        entries: Entries,
        journal_from: Option<JournalPosition>,
    ) -> Result<Committed> {
        let pool = &self.backing.pool;
        let Entries {
            listed,
            trashed,
            mut edits,
        } = entries;
        let entries_change = i64::from(listed.is_some());
        edits.extend(listed.map(|snapshot| Edit {
            key: snapshot.key(),
            value: Some(snapshot.encode()),
        }));
        pool.commit_with(CommitPurpose::Volumes, |mut base| {
            if let Some(from) = journal_from {
                base.record.journal_position = from.0;
            }
            let since = Discarded {
                by: base.generation,
                at: pool.now(),
            };
            edits.extend(trashed.map(|snapshot| Forgotten { snapshot, since }.edit()));
            session.commit_more(base, edits, entries_change, &mut [])
        })
    }

    /// Forgets the session after a failed commit: the next one starts from the stored root.
    pub fn forget_session(&self, driver: &mut Driver) {
        let failed = StoreError::new(StoreErrorKind::Invalid, "the commit failed");
        let _ = self.settle(driver, Err(failed));
    }

    pub fn session<'a>(&self, slot: &'a mut Option<WriteSession>) -> Result<&'a mut WriteSession> {
        if slot.is_none() {
            *slot = Some(
                self.backing
                    .pool
                    .begin_for(CommitPurpose::Volumes, self.backing.lane)?,
            );
        }
        let none = || StoreError::new(StoreErrorKind::Invalid, "no session is open");
        slot.as_mut().ok_or_else(none)
    }

    /// Commits so that replay skips everything that no volume needs.
    pub fn trim_all(&self) -> Result<()> {
        let mut driver = self.driver.lock();
        if driver.round.is_none() {
            driver.round = Some(self.begin(self.dirty(Purpose::Trim), Purpose::Trim, Limits::NONE));
        }
        self.step_with(&mut driver, u64::MAX).map(drop)
    }

    /// Makes space in a full journal although no volume has new writes. The journal is full of
    /// records of deleted volumes, of slots that crashed processes began, and of writes that could
    /// not be taken. A commit drops the first two and carries the last forward.
    pub fn drop_unneeded(&self, driver: &mut Driver) -> Result<()> {
        let before = self.backing.journal.filled_bytes();
        driver.round = Some(self.begin(self.dirty(Purpose::Trim), Purpose::Trim, Limits::NONE));
        self.step_with(driver, u64::MAX)?;
        match self.backing.journal.filled_bytes() < before {
            true => Ok(()),
            false => Err(Self::no_room()),
        }
    }
}
