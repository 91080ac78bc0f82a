//! A garbage collection run (decision 20), in bounded steps, any of which may be the last. A task
//! driver, a command or a test calls them while others write.
//!
//! ```text
//! Purging -> Marking -> Deleting -> Choosing -> Copying -> Done
//!                                                |   ^
//!                                                +---+ one commit for each round
//! ```
//!
//! A run purges forgotten snapshots whose trash period is over, marks live chunks, and deletes
//! unneeded containers from the trash. It copies live chunks out of sparse containers, and out of
//! small ones if there are many, and moves those containers to the trash.
//!
//! Invariant: the run decides only which containers are collected, in which order. The store's
//! primitives prove that a deletion is safe. Times decide only how long to wait. Copies take no
//! more space than is free: a round that runs short commits what it has copied, and a round that
//! fails removes its copies.

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

/// Maximum number of containers that one commit moves to the trash. The contents of many small ones
/// should fill a few.
const ROUND_CONTAINERS_MAX: usize = 4096;
/// Maximum plain bytes copied for one commit: the work that a crash loses.
const ROUND_BYTES_MAX: u64 = 1 << 30;

/// Stage of a run, for displays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcStage {
    /// Purging forgotten snapshots.
    Purging,
    /// Marking live chunks.
    Marking,
    /// Deleting containers from the trash.
    Deleting,
    /// Choosing containers.
    Choosing,
    /// Copying live chunks out of them.
    Copying,
    /// Ended.
    Done,
}

/// A round in progress.
struct Round {
    copies: CopyRound,
    /// Containers of the round that are collected only because they are small.
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
    /// Chosen containers; the last one is copied first.
    plan: Vec<Candidate>,
    /// The containers of the plan, until a commit moves them to the trash.
    retired: Option<Retired>,
    round: Option<Round>,
    /// Free space does not suffice for all copies that are worthwhile.
    is_tight: bool,
    counts: GcCounts,
    /// Oldest commit whose trash this run could not delete, because a hold on an older commit
    /// blocked it.
    awaited: Option<Generation>,
    /// `None`: a dry run, which changes nothing that a concurrent run relies on.
    permit: Option<GcPermit>,
}

impl Collector {
    /// Begins a run. A pool has at most one, not counting dry runs. `lane` says how copies are
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

    /// Returns the stage.
    pub fn stage(&self) -> GcStage {
        self.stage
    }

    /// Returns the totals so far.
    pub fn counts(&self) -> GcCounts {
        let mark = self.mark.as_ref();
        let marked = mark.map(Mark::summary).unwrap_or_default();
        let round = self.round.as_ref();
        let copied = round.map(|round| round.copies.counts()).unwrap_or_default();
        self.counts.with_mark(&marked).plus_copied(&copied)
    }

    /// Returns true if another run may delete what this one could not, because the holds that
    /// blocked it have ended.
    pub fn is_worth_another(&self, pool: &Pool) -> bool {
        let held = pool.held_oldest();
        self.awaited
            .is_some_and(|by| held.is_none_or(|held| held >= by))
    }

    fn awaits(&mut self, by: Option<Generation>) {
        self.awaited = self.awaited.into_iter().chain(by).min();
    }

    /// Returns the plain bytes left to copy, as far as known.
    pub fn bytes_to_copy(&self) -> u64 {
        let planned: u64 = self.plan.iter().map(|c| c.live_bytes).sum();
        let round = self.round.as_ref();
        planned + round.map_or(0, |round| round.copies.bytes_left())
    }

    /// Stops copying: the next step commits the copies so far. Containers of which nothing was
    /// copied yet stay. For callers that run out of space.
    pub fn copy_no_more(&mut self) {
        self.plan.clear();
        if let Some(round) = &mut self.round {
            round.copies.give_up_rest();
        }
    }

    /// Ends the run. Removes copies that are not committed, so that they burden neither a full disk
    /// nor the recovery after a crash.
    pub fn give_up(mut self, pool: &Pool) {
        if let Some(round) = self.round.take() {
            round.copies.discard(pool);
        }
    }

    /// Does about `budget_bytes` of work. `volumes` are the pool's, if it has any. They must be
    /// open, because their journal may need chunks that no root names. After an error the run is
    /// over; the next run continues its work.
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

    /// Deletes some containers from the trash. If none is left, the next stage is choosing.
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
        // The trash of a dry run excludes the containers that it would delete.
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

/// Takes the next round's containers from the end of the plan, in the order of copying. Also
/// returns those that are collected only because they are small, in ascending order.
fn next_round(plan: &mut Vec<Candidate>, is_tight: bool) -> (Vec<ContainerId>, Vec<ContainerId>) {
    let mut round: Vec<Candidate> = Vec::new();
    let mut bytes = 0;
    while let Some(candidate) = plan.last()
        && round.len() < ROUND_CONTAINERS_MAX
        && (round.is_empty() || bytes + candidate.live_bytes <= ROUND_BYTES_MAX)
    {
        // If space is tight, containers that need no copying are moved to the trash in a commit of
        // their own before anything is copied.
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
