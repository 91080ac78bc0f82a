//! A garbage collection run (decision 20): bounded steps, any of which may be the last. A task driver,
//! a command or a test calls them while others write.
//!
//! A run purges forgotten snapshots whose time is over, marks what is live, deletes containers from
//! the trash that nobody needs, copies what is live out of sparse containers, and out of small ones
//! when there are many, and puts those into the trash.
//!
//! Invariant: the run decides which containers and in which order; what may be deleted is proven by
//! the store's primitives. Times decide nothing but how long to wait. Copies take no more than there
//! is room for: a round that runs short of it commits what it has, and one that fails removes its
//! copies.

mod choose;
mod merge;
mod policy;
mod task;
mod urgency;

pub use policy::{GcCounts, GcPolicy};
pub use task::Collecting;

use choose::Candidate;
use store::{
    CachedChunks, CopyRound, Deletion, Expiry, GcPermit, GcStep, LaneOptions, Mark, OpenVolumes,
    Pool, Result, Retired, SnapshotExpiry,
};
use units::{ContainerId, Generation};
use volumes::Volumes;

/// Containers that one commit gives up. What many small ones hold should fill a few.
const ROUND_CONTAINERS_MAX: usize = 4096;
/// Plain bytes that are copied for one commit: what a crash loses of the work.
const ROUND_BYTES_MAX: u64 = 1 << 30;

/// Where a run is, for who watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcStage {
    /// Purging forgotten snapshots.
    Purging,
    /// Marking what is live.
    Marking,
    /// Deleting from the trash.
    Deleting,
    /// Choosing containers.
    Choosing,
    /// Copying what is live out of them.
    Copying,
    /// Over.
    Done,
}

/// A round under way.
struct Round {
    copies: CopyRound,
    /// Those of its containers that are collected only because they are small.
    small: Vec<ContainerId>,
}

/// A run. See the module's head.
pub struct Collector {
    policy: GcPolicy,
    lane: LaneOptions,
    trash_expiry: Expiry,
    snapshot_expiry: SnapshotExpiry,
    stage: GcStage,
    mark: Option<Mark>,
    deletion: Option<Deletion>,
    /// Chosen, the first to be copied last.
    plan: Vec<Candidate>,
    /// All of the plan, until a commit gives them up.
    retired: Option<Retired>,
    round: Option<Round>,
    /// There is no room for copies of all that is worth it.
    is_tight: bool,
    counts: GcCounts,
    /// The oldest commit for whose trash this run was too early: somebody held an older commit.
    awaited: Option<Generation>,
    /// `None`: a dry run, which changes nothing that a run beside it relies on.
    permit: Option<GcPermit>,
}

impl Collector {
    /// Begins a run; one at a time for each pool, dry runs excepted. `lane` says how copies are
    /// packed.
    pub fn new(pool: &Pool, policy: GcPolicy, lane: LaneOptions) -> Result<Self> {
        let permit = match policy.dry_run {
            true => None,
            false => Some(pool.gc_permit()?),
        };
        Ok(Self {
            policy,
            lane,
            trash_expiry: Expiry::new(policy.reader_period_ns, policy.ahead),
            snapshot_expiry: SnapshotExpiry::new(pool, policy.trash_period_ns, policy.ahead)?,
            stage: GcStage::Purging,
            mark: None,
            deletion: None,
            plan: Vec::new(),
            retired: None,
            round: None,
            is_tight: false,
            counts: GcCounts::default(),
            awaited: None,
            permit,
        })
    }

    /// Where it is.
    pub fn stage(&self) -> GcStage {
        self.stage
    }

    /// What it did so far.
    pub fn counts(&self) -> GcCounts {
        let mark = self.mark.as_ref();
        let marked = mark.map(Mark::summary).unwrap_or_default();
        let round = self.round.as_ref();
        let copied = round.map(|round| round.copies.counts()).unwrap_or_default();
        self.counts.with_mark(&marked).plus_copied(&copied)
    }

    /// True when another run may free what this one could not, because who held it has ended since.
    pub fn is_worth_another(&self, pool: &Pool) -> bool {
        let held = pool.held_oldest();
        self.awaited
            .is_some_and(|by| held.is_none_or(|held| held >= by))
    }

    fn awaits(&mut self, by: Option<Generation>) {
        self.awaited = self.awaited.into_iter().chain(by).min();
    }

    /// Plain bytes that are still to be copied, as far as is known.
    pub fn bytes_to_copy(&self) -> u64 {
        let planned: u64 = self.plan.iter().map(|c| c.live_bytes).sum();
        let round = self.round.as_ref();
        planned + round.map_or(0, |round| round.copies.bytes_left())
    }

    /// Nothing more is copied: the next step commits what was copied so far, and containers of which
    /// nothing was copied yet stay. For who runs out of room.
    pub fn copy_no_more(&mut self) {
        self.plan.clear();
        if let Some(round) = &mut self.round {
            round.copies.give_up_rest();
        }
    }

    /// The run is over: what it copied and did not commit is removed, so that no crash of later
    /// writers nor a full disk is left with it.
    pub fn give_up(mut self, pool: &Pool) {
        if let Some(round) = self.round.take() {
            round.copies.discard(pool);
        }
    }

    /// Does about so many bytes of work. `volumes` are the pool's, if it has any: they must be open,
    /// because their journal may need what no root names. After an error the run is over; the next
    /// one takes up what this one left.
    pub fn step(
        &mut self,
        pool: &Pool,
        volumes: Option<&Volumes>,
        cached: &dyn CachedChunks,
        budget_bytes: u64,
    ) -> Result<GcStep> {
        match self.stage {
            GcStage::Purging => self.purge(pool)?,
            GcStage::Marking => self.mark(pool, volumes, budget_bytes)?,
            GcStage::Deleting => self.delete(pool, budget_bytes)?,
            GcStage::Choosing => self.choose(pool, cached)?,
            GcStage::Copying => self.copy(pool, cached, budget_bytes)?,
            GcStage::Done => return Ok(GcStep::Done),
        }
        Ok(GcStep::Working)
    }

    fn purge(&mut self, pool: &Pool) -> Result<()> {
        let purged = match &self.permit {
            Some(permit) => pool.purge(permit, &self.snapshot_expiry)?,
            None => pool.estimate_purge(&self.snapshot_expiry)?,
        };
        self.counts.snapshots_purged = purged.snapshots;
        self.counts.ahead_by = purged.ahead_by;
        self.awaits(purged.awaited);
        self.stage = GcStage::Marking;
        Ok(())
    }

    fn mark(&mut self, pool: &Pool, volumes: Option<&Volumes>, budget_bytes: u64) -> Result<()> {
        let Some(mark) = &mut self.mark else {
            let volumes = volumes.map(|open| open as &dyn OpenVolumes);
            self.mark = Some(match &self.permit {
                Some(_) => Mark::begin(pool, volumes)?,
                None => Mark::estimate(pool, volumes, &self.snapshot_expiry)?,
            });
            return Ok(());
        };
        if mark.step(pool, budget_bytes)? == GcStep::Done {
            self.stage = GcStage::Deleting;
        }
        Ok(())
    }

    /// Deletes some of what can be deleted; when nothing is left, goes on to choosing.
    fn delete(&mut self, pool: &Pool, budget_bytes: u64) -> Result<()> {
        let Some(mark) = &mut self.mark else {
            return Ok(());
        };
        if let Some(mut deletion) = self.deletion.take() {
            match deletion.step(pool, mark, budget_bytes)? {
                GcStep::Working => self.deletion = Some(deletion),
                GcStep::Done => self.counts.count_deleted(deletion.deleted()),
            }
            return Ok(());
        }
        let deletable = mark.deletable(pool, &self.trash_expiry);
        if let Some(permit) = &self.permit
            && !deletable.containers().is_empty()
        {
            let awaited = deletable.awaited();
            self.deletion = Some(Deletion::begin(pool, permit, mark, deletable)?);
            self.awaits(awaited);
            return Ok(());
        }
        // Of a dry run: what it would delete does not stay.
        self.counts.count_deleted(deletable.containers());
        self.counts
            .count_trash(mark.trash(), deletable.containers());
        self.awaits(deletable.awaited());
        self.stage = GcStage::Choosing;
        Ok(())
    }

    /// Makes the plan. A dry run only counts it.
    fn choose(&mut self, pool: &Pool, cached: &dyn CachedChunks) -> Result<()> {
        let plan = self.chosen(pool, cached)?;
        if let Some(permit) = &self.permit {
            let new = plan.iter().filter(|candidate| !candidate.in_trash);
            self.retired = Some(Retired::new(pool, permit, new.map(|c| c.id)));
            self.plan = plan;
        } else {
            for candidate in plan.iter().filter(|candidate| !candidate.in_trash) {
                self.counts.containers_discarded += 1;
                self.counts.containers_merged += u64::from(candidate.is_small);
                self.counts.discarded_bytes += pool.container_bytes(candidate.id);
                self.counts.copied_bytes += candidate.live_bytes;
            }
        }
        self.stage = GcStage::Copying;
        Ok(())
    }

    fn copy(&mut self, pool: &Pool, cached: &dyn CachedChunks, budget_bytes: u64) -> Result<()> {
        let (Some(mark), Some(retired), false) = (
            &self.mark,
            &mut self.retired,
            self.plan.is_empty() && self.round.is_none(),
        ) else {
            self.counts.containers_in_trash += self.counts.containers_discarded;
            self.counts.trash_bytes += self.counts.discarded_bytes;
            self.stage = GcStage::Done;
            return Ok(());
        };
        let Some(mut round) = self.round.take() else {
            let (containers, small) = next_round(&mut self.plan, self.is_tight);
            let copies = CopyRound::begin(pool, self.lane, mark, &containers)?;
            self.round = Some(Round { copies, small });
            return Ok(());
        };
        if round.copies.bytes_left() > 0 && round.copies.is_short_of_room(pool) {
            let unbegun = round.copies.give_up_rest();
            self.counts.containers_without_room += self.plan.len() as u64 + unbegun;
            self.plan.clear();
        }
        let step = round.copies.step(pool, mark, retired, cached, budget_bytes);
        if matches!(step, Ok(GcStep::Working)) {
            self.round = Some(round);
            return Ok(());
        }
        self.counts = self.counts.plus_copied(&round.copies.counts());
        if let Err(e) = step {
            round.copies.discard(pool);
            return Err(e);
        }
        let discarded = round.copies.commit(pool, retired)?;
        let merged = discarded.containers.iter();
        let merged = merged.filter(|id| round.small.binary_search(id).is_ok());
        self.counts.containers_merged += merged.count() as u64;
        self.counts.containers_discarded += discarded.containers.len() as u64;
        self.counts.discarded_bytes += discarded.stored_bytes;
        Ok(())
    }
}

/// Takes the next round's containers from the end of the plan, in the order in which they are
/// copied; and those of them that are collected only because they are small, in ascending order.
fn next_round(plan: &mut Vec<Candidate>, is_tight: bool) -> (Vec<ContainerId>, Vec<ContainerId>) {
    let mut round: Vec<Candidate> = Vec::new();
    let mut bytes = 0;
    while let Some(candidate) = plan.last()
        && round.len() < ROUND_CONTAINERS_MAX
        && (round.is_empty() || bytes + candidate.live_bytes <= ROUND_BYTES_MAX)
    {
        // What needs no copying is given up before anything is copied, when there is little room.
        let is_first = |round: &[Candidate]| round.first().is_none_or(|c| c.live_bytes == 0);
        if is_tight && is_first(&round) && !round.is_empty() && candidate.live_bytes > 0 {
            break;
        }
        bytes += candidate.live_bytes;
        round.extend(plan.pop());
    }
    let small = round.iter().filter(|c| c.is_small && !c.in_trash);
    let mut small: Vec<_> = small.map(|c| c.id).collect();
    small.sort_unstable();
    (round.iter().map(|c| c.id).collect(), small)
}
