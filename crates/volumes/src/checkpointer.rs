//! Rounds: checkpoints of all volumes that are dirty, or of one that changes.
//!
//! Invariant: one thread works on a round at a time, and after a failure the round is done again from its
//! start; the journal is trimmed only to where every write is in a committed root. On a full disk a round
//! takes what there is room for, and leaves the room that collection and deletion need. Called by whoever
//! drives the steps, by writers who help, and where names of volumes change.

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
use chunk_store::catalog::Edit;
use format::recipe::ObjectRoot;
use format::volume::VolumeRecord;
use parking_lot::Mutex;
use round::Member;
use signal::Signal;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use store::Purpose as CommitPurpose;
use store::{Committed, WriteSession};
use store::{Result, StoreError, StoreErrorKind};
use units::{JournalPosition, VolumeId};

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
pub(super) struct Driver {
    pub session: Option<WriteSession>,
    round: Option<Round>,
    /// The journal's head after the last round that was to trim it.
    trimmed: Option<JournalPosition>,
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
    purpose: Purpose,
    /// Bytes that it may still store.
    room: u64,
}

/// What a round is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To take what was written. What cannot be taken stays where it is, and costs nothing.
    Take,
    /// The same; what cannot be taken is carried forward, so that the journal can be trimmed.
    Trim,
    /// A change of the volume. What cannot be taken is carried forward.
    Change,
    /// A root that holds everything: what cannot be taken is an error.
    Exact,
}

/// What goes into a round's commit besides the new roots.
pub(super) type AtCommit<'a> =
    dyn FnMut(&mut BTreeMap<VolumeId, VolumeRecord>) -> (Vec<Edit>, i64) + 'a;

/// See the module's head.
pub(super) struct Checkpointer {
    backing: Arc<Backing>,
    levels: Arc<Levels>,
    room: Arc<Room>,
    direct: Arc<DirectLanes>,
    registry: Arc<Registry>,
    losses: Arc<Losses>,
    /// Held for a step; who finds no room waits for it.
    pub driver: Mutex<Driver>,
    /// There is work for whoever drives the steps.
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

    /// A writer found no room.
    pub fn note_full(&self) {
        self.full.fetch_add(1, Ordering::Relaxed);
    }

    /// Rounds so far: read before an attempt to append, given to `make_room` when it fails.
    pub fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Acquire)
    }

    pub fn no_room() -> StoreError {
        StoreError::no_space("the journal is full and cannot be emptied")
    }

    /// A bounded piece of a checkpoint; begins one when there is anything to fold.
    pub fn step(&self, budget: u64) -> Result<Step> {
        self.step_with(&mut self.driver.lock(), budget)
    }

    pub fn step_with(&self, driver: &mut Driver, budget: u64) -> Result<Step> {
        self.step_within(driver, budget, None)
    }

    /// The same, where a round that begins stores at most so many bytes; `None`: as many as the disk has
    /// room for.
    pub fn step_within(&self, driver: &mut Driver, budget: u64, room: Option<u64>) -> Result<Step> {
        if driver.round.is_none() {
            let full = self.levels.wants_checkpoint(false);
            // One that could not make room is not made again for nothing.
            let purpose = match full && driver.trimmed != Some(self.backing.journal.head()) {
                true => Purpose::Trim,
                false => Purpose::Take,
            };
            let dirty = self.dirty(purpose);
            if dirty.is_empty() {
                return Ok(Step::Idle);
            }
            let room = match room {
                Some(room) => room,
                None => self.room.of_round()?,
            };
            driver.round = Some(self.begin(dirty, purpose, room));
        }
        let result = self.advance(driver, budget, &mut |_| (Vec::new(), 0));
        self.settle(driver, result)
    }

    /// All volumes that have something for a round.
    fn dirty(&self, purpose: Purpose) -> Vec<Arc<LiveVolume>> {
        let wanted = |volume: &Arc<LiveVolume>| {
            let state = volume.state();
            // What was kept is tried again for the sake of the journal only.
            state.fresh || purpose == Purpose::Trim && state.active.first_position().is_some()
        };
        let registry = self.registry.lock();
        let volumes = registry.values().map(|r| Arc::clone(&r.volume));
        volumes.filter(wanted).collect()
    }

    fn begin(&self, volumes: Vec<Arc<LiveVolume>>, purpose: Purpose, room: u64) -> Round {
        let head = self.backing.journal.head();
        let members = volumes.into_iter().map(|v| self.freeze(v, None));
        Round {
            members: members.collect(),
            head,
            at: 0,
            purpose,
            room,
        }
    }

    fn freeze(&self, volume: Arc<LiveVolume>, len: Option<u64>) -> Member {
        Member::freeze(&self.backing, &self.levels.pieces.frozen, volume, len)
    }

    /// Gives the round up that is under way: nothing of it happened.
    pub fn give_up_round(&self, driver: &mut Driver) {
        driver.session = None;
        if let Some(round) = driver.round.take() {
            round.members.into_iter().for_each(|m| m.thaw(false));
        }
    }

    /// Finishes the round under way, then makes one for `volume` alone, with more in its commit.
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
            room: u64::MAX,
        });
        let result = self.advance(driver, u64::MAX, at_commit);
        let result = self.settle(driver, result);
        if result.is_err() {
            // The change did not happen: what was frozen for it goes on as before.
            self.give_up_round(driver);
        }
        result.map(drop)
    }

    /// After a failure nothing of the session is believed: the round is done again from its start. On a
    /// full disk there may be less room for it then.
    fn settle(&self, driver: &mut Driver, result: Result<Step>) -> Result<Step> {
        if result.as_ref().is_err_and(StoreError::is_full) {
            self.give_up_round(driver);
        }
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
            let done = member.destage(session.main(), budget, &mut round.room)?;
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
        if round.purpose == Purpose::Trim {
            driver.trimmed = Some(self.backing.journal.head());
        }
        driver.round = None;
        self.count_kept();
        let Some(needed) = needed else {
            return Ok(Step::Idle);
        };
        self.backing.journal.trim(needed);
        self.rounds.fetch_add(1, Ordering::Release);
        Ok(Step::Committed)
    }

    /// Folds, commits, and lets the volumes read through their new roots. Returns from where on
    /// the committed root needs the journal; `None` when there was nothing to commit.
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
            roots.push(self.fold(session, member, round.purpose)?);
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
            // The commit passes over the old records of what was carried, and over what is newer
            // there; what a part left is replayed with all that came after it, or not at all.
            self.backing.journal.flush()?;
        }
        let mut folded_all = round.head;
        for (member, root) in round.members.iter().zip(&roots) {
            let folded = member.folded();
            folded_all = folded_all.min(folded);
            let root = root.unwrap_or_else(|| member.volume.state().root);
            let registry = self.registry.lock();
            // Deleted meanwhile: its chunks are garbage, its record must not come back.
            if let Some(registered) = registry.get(&member.volume.id) {
                let mut record = registered.record.clone();
                record.root = root;
                record.folded = folded;
                records.insert(member.volume.id, record);
            }
        }
        // Before a root reaches what was stored directly.
        self.direct.commit()?;
        let (mut edits, entries_change) = at_commit(&mut records);
        edits.extend(records.values().map(|record| Edit {
            key: record.key(),
            value: Some(record.encode()),
        }));
        let needed = self.registry.needed_from(folded_all);
        self.commit(session, edits, entries_change, Some(needed))?;
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

    /// The member's new root; `None` when nothing of it can be taken, and the old one stays.
    fn fold(
        &self,
        session: &mut WriteSession,
        member: &mut Member,
        purpose: Purpose,
    ) -> Result<Option<ObjectRoot>> {
        let root = member.fold(session)?;
        let resizes = member.len != member.volume.state().size;
        match member.kept() {
            Some(kept) if purpose == Purpose::Exact || (resizes && root.is_none()) => {
                let (from, to) = kept.ranges.first().map_or((0, 0), |r| (r.start, r.end));
                let name = self.registry.name_of(&member.volume.id);
                let place = format!("{name} bytes {from} to {to}");
                let found = format!(
                    "what was written there cannot be checkpointed: {}",
                    kept.why
                );
                Err(StoreError::corruption("volume", place, found))
            }
            _ => Ok(root),
        }
    }

    /// Members of which nothing can be taken leave the round, unless the journal must be trimmed.
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

    /// Members that there was no room for at all leave the round.
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

    /// Counts what volumes keep anew, after it changed.
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

    /// One commit of the volumes' session.
    pub fn commit(
        &self,
        session: &mut WriteSession,
        edits: Vec<Edit>,
        entries_change: i64,
        journal_from: Option<JournalPosition>,
    ) -> Result<Committed> {
        self.backing
            .pool
            .commit_with(CommitPurpose::Volumes, |mut base| {
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
            *slot = Some(
                self.backing
                    .pool
                    .begin_for(CommitPurpose::Volumes, self.backing.lane)?,
            );
        }
        let none = || StoreError::new(StoreErrorKind::Invalid, "no session");
        slot.as_mut().ok_or_else(none)
    }

    /// A commit that passes over everything in the journal that no volume needs.
    pub fn trim_all(&self) -> Result<()> {
        let mut driver = self.driver.lock();
        if driver.round.is_none() {
            driver.round = Some(self.begin(self.dirty(Purpose::Trim), Purpose::Trim, u64::MAX));
        }
        self.step_with(&mut driver, u64::MAX).map(drop)
    }

    /// Nothing is dirty, and yet the journal is full: of records of volumes that were deleted, and
    /// of slots that processes began before they died, and of what is kept. A root says that nobody
    /// needs the former, and the latter is carried forward.
    pub fn drop_unneeded(&self, driver: &mut Driver) -> Result<()> {
        let before = self.backing.journal.filled_bytes();
        driver.round = Some(self.begin(self.dirty(Purpose::Trim), Purpose::Trim, u64::MAX));
        self.step_with(driver, u64::MAX)?;
        match self.backing.journal.filled_bytes() < before {
            true => Ok(()),
            false => Err(Self::no_room()),
        }
    }
}
