//! A garbage collection run (decision 20), in bounded steps, any of which may be the last. A task
//! driver, a command or a test calls them while others write.
//!
//! ```text
//! Purging -> Marking -> Deleting -> Choosing -> Ordering -> Copying -> Done
//!                                                            |   ^
//!                                                            +---+ one commit for each round
//! ```
//!
//! A run purges forgotten snapshots whose trash period is over, marks live chunks, and deletes
//! unneeded containers from the trash. It copies live chunks out of sparse containers, and out of
//! small ones if there are many, and moves those containers to the trash. From the mark on it
//! listens to what clients read (Duet, SOSP'15), and copies what is in memory first. If it copies
//! much and space suffices, it orders copies by the snapshots that refer to them (GCCDF,
//! EuroSys'25; decision 34).
//!
//! Invariant: the run decides only which containers are collected, in which order. The store's
//! primitives prove that a deletion is safe. Times decide only how long to wait. Copies take no
//! more space than is free, and leave what open containers of volumes need, because the next mark
//! stores these: a round that runs short commits what it has copied, and a round that fails removes
//! its copies.

mod choose;
mod merge;
mod order;
mod plan;
mod policy;
mod run;
mod task;
mod urgency;

pub use policy::{GcCounts, GcPolicy};
pub use run::GcRun;
pub use task::Collecting;

use choose::Candidate;
use duet::{Access, Duet, NothingPresent, Present, Session};
use plan::{Plan, listen};
use std::collections::HashSet;
use std::sync::Arc;
use store::{
    CachedChunks, CopyRound, Deletion, Expiry, GcPermit, GcStep, LaneOptions, Mark, OpenVolumes,
    Owners, Pool, Result, Retired, SnapshotExpiry,
};
use units::{ContainerId, Generation};
use volumes::Volumes;

/// Maximum number of containers that one commit moves to the trash. The contents of many small ones
/// should fill a few.
const ROUND_CONTAINERS_MAX: usize = 4096;
/// Plain bytes copied for one commit, up to one container more: the work that a crash loses.
const ROUND_BYTES_MAX: u64 = 1 << 30;

/// Stage of a run, for displays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GcStage {
    /// Purging forgotten snapshots.
    Purging,
    /// Marking live chunks.
    Marking,
    /// Deleting containers from the trash.
    Deleting,
    /// Choosing containers.
    Choosing,
    /// Finding out which snapshots refer to the live chunks in them.
    Ordering,
    /// Copying live chunks out of them.
    Copying,
    /// Ended.
    Done,
}

/// A round in progress.
struct Round {
    copies: CopyRound,
    /// Containers of the round that are collected only because they are small.
    small: HashSet<ContainerId>,
    containers: usize,
    /// Plain bytes to copy.
    live_bytes: u64,
}

impl Round {
    fn new(copies: CopyRound) -> Self {
        Self {
            copies,
            small: HashSet::new(),
            containers: 0,
            live_bytes: 0,
        }
    }

    /// Returns true if the next container of the plan goes into this round.
    fn has_room(&self, plan: &Plan, is_tight: bool) -> bool {
        let Some(next) = plan.first() else {
            return false;
        };
        // If space is tight, containers that need no copying are moved to the trash in a commit of
        // their own before anything is copied.
        let is_apart =
            is_tight && self.containers > 0 && self.live_bytes == 0 && next.live_bytes > 0;
        let is_full = self.containers >= ROUND_CONTAINERS_MAX || self.live_bytes >= ROUND_BYTES_MAX;
        !is_apart && !is_full
    }

    fn add(&mut self, mark: &Mark, candidate: &Candidate) {
        self.containers += 1;
        self.live_bytes += candidate.live_bytes;
        if candidate.is_small && !candidate.in_trash {
            self.small.insert(candidate.id);
        }
        self.copies.add(mark, candidate.id);
    }
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
    /// Events of what clients read, until there is a plan.
    session: Option<Session>,
    /// Chosen containers.
    plan: Option<Plan>,
    /// Owners of the chunks to copy, if copies are ordered by them.
    owners: Option<Arc<Owners>>,
    /// The containers of the plan, until a commit moves them to the trash.
    retired: Option<Retired>,
    round: Option<Round>,
    /// Free space does not suffice for all copies that are worthwhile.
    is_tight: bool,
    /// It hardly suffices.
    is_scarce: bool,
    /// Space that copies leave for open containers of volumes.
    kept_bytes: u64,
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
            session: None,
            plan: None,
            owners: None,
            retired: None,
            round: None,
            is_tight: false,
            is_scarce: false,
            kept_bytes: 0,
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
        let planned = self.plan.as_ref().map_or(0, Plan::bytes);
        let round = self.round.as_ref();
        planned + round.map_or(0, |round| round.copies.bytes_left())
    }

    /// Stops copying: the next step commits the copies so far. Containers of which nothing was
    /// copied yet stay. For callers that run out of space.
    pub fn copy_no_more(&mut self) {
        if let Some(plan) = &mut self.plan {
            plan.clear();
        }
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
        self.kept_bytes = volumes.map_or(0, Volumes::open_container_bytes);
        match self.stage {
            GcStage::Purging => self.purge(pool)?,
            GcStage::Marking => self.mark(pool, volumes, budget_bytes)?,
            GcStage::Deleting => self.delete(pool, budget_bytes)?,
            GcStage::Choosing => self.choose(pool, cached)?,
            GcStage::Ordering => self.order(pool, budget_bytes),
            GcStage::Copying => drop(self.copy(pool, cached, (budget_bytes, Access::Device))?),
            GcStage::Done => return Ok(GcStep::Done),
        }
        Ok(GcStep::Working)
    }

    /// Copies about `budget_bytes` that are in memory. Returns false if the next step needs the
    /// device.
    pub fn step_in_memory(
        &mut self,
        pool: &Pool,
        cached: &dyn CachedChunks,
        budget_bytes: u64,
    ) -> Result<bool> {
        match self.round.is_some() && !cached.is_empty() {
            true => self.copy(pool, cached, (budget_bytes, Access::Memory)),
            false => Ok(false),
        }
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
            // Without a session, the order is the planned one.
            self.session = volumes.and_then(|volumes| listen(volumes.duet()).ok());
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
        let mut plan = self.chosen(pool, cached)?;
        plan.reverse();
        let session = self
            .session
            .take()
            .filter(|_| !self.is_tight && !cached.is_empty());
        if let Some(permit) = &self.permit {
            let new = plan.iter().filter(|candidate| !candidate.in_trash);
            self.retired = Some(Retired::new(pool, permit, new.map(|c| c.id)));
            let session = match session {
                Some(session) => session,
                None => listen(&Duet::silent())?,
            };
            self.owners = self.owners_of(pool, &plan);
            self.plan = Some(Plan::new(plan, session));
        } else {
            for candidate in plan.iter().filter(|candidate| !candidate.in_trash) {
                self.counts.discarded_containers += 1;
                self.counts.merged_containers += u64::from(candidate.is_small);
                self.counts.discarded_bytes += pool.container_bytes(candidate.id);
                self.counts.copied_bytes += candidate.live_bytes;
            }
        }
        self.stage = match self.owners.is_some() {
            true => GcStage::Ordering,
            false => GcStage::Copying,
        };
        Ok(())
    }

    /// Returns false if this needs the device, and `access` is memory.
    fn copy(
        &mut self,
        pool: &Pool,
        cached: &dyn CachedChunks,
        (budget_bytes, access): (u64, Access),
    ) -> Result<bool> {
        let is_over = self.round.is_none() && self.plan.as_ref().is_none_or(|p| p.len() == 0);
        let (Some(mark), Some(retired), Some(plan), false) =
            (&self.mark, &mut self.retired, &mut self.plan, is_over)
        else {
            self.counts.trash_containers += self.counts.discarded_containers;
            self.counts.trash_bytes += self.counts.discarded_bytes;
            // Returns their memory.
            self.owners = None;
            self.stage = GcStage::Done;
            return Ok(true);
        };
        let Some(mut round) = self.round.take() else {
            let copies = CopyRound::begin(pool, self.lane, mark, &[])?;
            self.round = Some(Round::new(match &self.owners {
                Some(owners) => copies.by_owner(Arc::clone(owners)),
                None => copies,
            }));
            return Ok(true);
        };
        let present: &dyn Present = match self.is_tight || cached.is_empty() {
            true => &NothingPresent,
            false => pool.reader().recent_regions(),
        };
        let segment_bytes = self.owners.as_ref().map_or(1, |o| o.segment_bytes());
        while round.copies.unbegun_bytes() < budget_bytes.max(segment_bytes)
            && round.has_room(plan, self.is_tight)
            && let Some(candidate) = plan.take(present, access)
        {
            round.add(mark, &candidate);
        }
        if round.copies.bytes_left() > 0 && round.copies.is_short_of_room(pool, self.kept_bytes) {
            let unbegun = round.copies.give_up_rest();
            self.counts.containers_without_room += plan.len() as u64 + unbegun;
            plan.clear();
        }
        let budget = (budget_bytes, access);
        let step = round.copies.step(pool, mark, retired, cached, budget);
        let is_packed = matches!(step, Ok(Some(GcStep::Done)));
        let is_complete = is_packed && !round.has_room(plan, self.is_tight);
        if step.is_ok() && !(is_complete && access == Access::Device) {
            self.round = Some(round);
            return Ok(access == Access::Device || matches!(step, Ok(Some(GcStep::Working))));
        }
        self.counts = self.counts.plus_copied(&round.copies.counts());
        if let Err(e) = step {
            round.copies.discard(pool);
            return Err(e);
        }
        let discarded = round.copies.commit(pool, retired)?;
        let merged = discarded.containers.iter();
        let merged = merged.filter(|id| round.small.contains(id));
        self.counts.merged_containers += merged.count() as u64;
        self.counts.discarded_containers += discarded.containers.len() as u64;
        self.counts.discarded_bytes += discarded.stored_bytes;
        Ok(true)
    }
}
