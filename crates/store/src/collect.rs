//! The collector: gives back the space that nothing needs (physical garbage collection, FAST'17;
//! decision 20). Bounded steps, any of which may be the last: a task driver, a command or a seed
//! calls them while others write.
//!
//! A run purges forgotten snapshots whose time is over, marks what is live, deletes containers from
//! the trash that nobody needs, copies what is live out of sparse containers, and out of small
//! ones when there are many, and puts those into the trash.
//!
//! Snapshots that clients of this process have open count as live, purged or not (`held`).
//!
//! Invariant: a container is deleted only when it came into the trash by a commit that nobody began
//! before (`pool::holds`), and a mark that began after that found nothing live in it. What is copied
//! is durable before its old container is in the trash. Times decide nothing but how long to wait.

mod cached;
mod choose;
mod copy;
mod discard;
mod held;
mod lanes;
mod merge;
mod opener;
mod policy;
mod region;

pub use policy::{CachedChunks, GcCounts, GcPolicy, NothingCached};

use crate::catalog::{Discarded, Edit, Forgotten, Trash, TrashedContainer, parse_trash, visit};
use crate::error::{Result, StoreError, StoreErrorKind};
use crate::pool::{Pool, Purpose};
use crate::space::{Marking, Sources};
use crate::volumes::{Needed, Volumes};
use crate::write_path::LaneOptions;
use choose::Candidate;
use copy::{RetiredForNow, Round};
use discard::Leaving;
use format::recipe::ObjectRoot;
use format::root::RootRecord;
use format::snapshot::{SNAPSHOT_KEY_TAG, Snapshot, SnapshotKind};
use format::volume::{VOLUME_KEY_TAG, VolumeRecord};
use held::HeldRoots;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use units::{ContainerId, Fingerprint, Generation, WriterId};

/// Catalog entries that one step reads.
const ENTRIES_A_STEP: usize = 4096;
/// Bytes that a reference is worth when a budget of bytes is turned into references.
const REFERENCE_BYTES: u64 = 4096;

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcStep {
    /// There is more to do.
    Working,
    /// The run is over.
    Done,
}

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

/// What a mark is of.
struct Basis {
    generation: Generation,
    record: RootRecord,
    /// The oldest commit that somebody held when marking began.
    held: Option<Generation>,
    /// Where the walk over the catalog goes on; `None`: it is over.
    cursor: Option<Vec<u8>>,
}

/// A run. See the module's head.
pub struct Collector {
    policy: GcPolicy,
    lane: LaneOptions,
    stage: GcStage,
    basis: Option<Basis>,
    marking: Marking,
    held: HeldRoots,
    trash: Vec<TrashedContainer>,
    leaving: Option<Leaving>,
    /// Chosen, the first to be copied last.
    plan: Vec<Candidate>,
    /// All of the plan, until a commit gives them up.
    retired: Option<RetiredForNow>,
    round: Option<Round>,
    /// There is no room for copies of all that is worth it.
    is_tight: bool,
    counts: GcCounts,
    /// What would have gone but for who held a commit before this one.
    awaited: Option<Generation>,
    /// One run at a time.
    _alone: Arc<()>,
}

impl Collector {
    /// Begins a run; one at a time for each pool, dry ones apart. `lane` says how what is copied is packed.
    pub fn new(pool: &Pool, policy: GcPolicy, lane: LaneOptions) -> Result<Self> {
        if !policy.dry_run && !pool.is_writable() {
            let why = "the pool was opened for reading";
            return Err(StoreError::new(StoreErrorKind::Invalid, why));
        }
        let minimum_s = pool.trash_minimum()?.seconds;
        Ok(Self {
            policy: policy.keeping_trash_for(minimum_s),
            lane,
            stage: GcStage::Purging,
            basis: None,
            marking: Marking::default(),
            held: HeldRoots::default(),
            trash: Vec::new(),
            leaving: None,
            plan: Vec::new(),
            retired: None,
            round: None,
            is_tight: false,
            counts: GcCounts::default(),
            awaited: None,
            // Who only says what it would do changes nothing that a run beside it relies on.
            _alone: match policy.dry_run {
                true => Arc::default(),
                false => pool.collect_alone()?,
            },
        })
    }

    /// Where it is.
    pub fn stage(&self) -> GcStage {
        self.stage
    }

    /// What it did so far.
    pub fn counts(&self) -> GcCounts {
        GcCounts {
            marked: self.marking.counts,
            live_chunks: self.marking.live.chunks,
            live_bytes: self.marking.live.bytes,
            bit_bytes: self.marking.live.bit_bytes() as u64,
            ..self.counts
        }
    }

    /// True when another run may give back what this one could not, because who held it has ended since.
    pub fn is_worth_another(&self, pool: &Pool) -> bool {
        let held = pool.held_oldest();
        self.awaited
            .is_some_and(|by| held.is_none_or(|held| held >= by))
    }

    /// Notes what goes only when nobody holds a commit before this one.
    fn await_end_of(&mut self, held: Option<Generation>, by: Generation) {
        if held.is_some_and(|held| held < by) {
            self.awaited = Some(self.awaited.map_or(by, |awaited| awaited.min(by)));
        }
    }

    /// Plain bytes that are still to be copied, as far as is known.
    pub fn bytes_to_copy(&self) -> u64 {
        let planned: u64 = self.plan.iter().map(|c| c.live_bytes).sum();
        planned + self.round.as_ref().map_or(0, Round::bytes_left)
    }

    /// Nothing more is copied: what was copied so far is committed by the next step, and the containers of which
    /// nothing was yet stay. For who runs out of room.
    pub fn copy_no_more(&mut self) {
        self.plan.clear();
        if let Some(round) = &mut self.round {
            round.give_up_rest();
        }
    }

    /// The run is over: what it copied and did not commit is removed, so that no crash of later
    /// writers nor a full disk is left with it.
    pub fn give_up(mut self, pool: &Pool) {
        if let Some(round) = self.round.take() {
            round.remove(pool);
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
            GcStage::Purging => {
                self.purge(pool)?;
                self.stage = GcStage::Marking;
            }
            GcStage::Marking => self.mark(pool, volumes, budget_bytes)?,
            GcStage::Deleting => self.delete(pool, budget_bytes)?,
            GcStage::Choosing => self.choose(pool, cached)?,
            GcStage::Copying => self.copy(pool, cached, budget_bytes)?,
            GcStage::Done => return Ok(GcStep::Done),
        }
        Ok(GcStep::Working)
    }

    fn is_expired(&self, pool: &Pool, held: Option<Generation>, forgotten: &Forgotten) -> bool {
        self.is_time_over(pool, forgotten) && held.is_none_or(|held| held >= forgotten.since.by)
    }

    fn is_time_over(&self, pool: &Pool, forgotten: &Forgotten) -> bool {
        is_over(
            pool,
            &self.policy,
            forgotten.since,
            self.policy.trash_period_ns,
        )
    }

    /// Forgotten snapshots whose time is over go, unless somebody may still refer to what they reach.
    fn purge(&mut self, pool: &Pool) -> Result<()> {
        if !self.policy.dry_run {
            pool.enter_leftovers()?;
        }
        // Only what this commit has forgotten goes: holds that begin after the look below hold it or a later one.
        let (seen, _) = pool.newest();
        let (forgotten, containers) = pool.trash()?;
        let now = pool.now();
        let since = forgotten.iter().map(|f| f.since);
        let since = since.chain(containers.iter().map(|c| c.since));
        let ahead = since.filter(|since| since.at > now);
        self.counts.ahead_by = ahead.map(|since| since.by).max();
        let held = pool.held_oldest();
        for f in &forgotten {
            if self.is_time_over(pool, f) {
                self.await_end_of(held, f.since.by);
            }
        }
        let is_expired = |f: &Forgotten| f.since.by <= seen && self.is_expired(pool, held, f);
        let expired = forgotten.iter().filter(|f| is_expired(f)).count() as u64;
        if expired == 0 || self.policy.dry_run {
            self.counts.snapshots_purged = expired;
            return Ok(());
        }
        let session = pool.begin_for(Purpose::Collect, LaneOptions::metadata())?;
        let mut purged = 0;
        pool.commit_collected(pool.next_sequence(Purpose::Collect), |base| {
            // One that was taken back meanwhile is not there any more.
            let (forgotten, _) = pool.trash_of(base.record.catalog)?;
            let expired = forgotten.iter().filter(|f| is_expired(f));
            let edits: Vec<_> = expired
                .map(|f| Edit {
                    key: crate::catalog::forgotten_key(&f.snapshot),
                    value: None,
                })
                .collect();
            purged = edits.len() as u64;
            session.commit(base, edits, 0)
        })?;
        self.counts.snapshots_purged = purged;
        Ok(())
    }

    /// What the mark is of. The order matters: who holds what, then what volumes need, then the
    /// catalog: what one of them commits meanwhile is in the next.
    fn begin(&mut self, pool: &Pool, volumes: Option<&Volumes>) -> Result<()> {
        let held = pool.held_oldest();
        match volumes {
            Some(volumes) if !std::ptr::eq::<Pool>(&**volumes.pool(), pool) => {
                return Err(invalid("the volumes are of another pool"));
            }
            Some(volumes) => volumes.visit_unfolded(&mut self.marking)?,
            // Their journal is not known: an estimate is made without it.
            None if self.policy.dry_run => {}
            None if pool.has_open_volumes() || !pool.volumes()?.is_empty() => {
                return Err(invalid("the pool has volumes, which are not open"));
            }
            None => {}
        }
        let (generation, record) = pool.newest();
        // After the commit was chosen: see `pool::open_snapshots`.
        self.held = HeldRoots::of(pool);
        self.trash = pool.trash_of(record.catalog)?.1;
        self.basis = Some(Basis {
            generation,
            record,
            held,
            cursor: Some(Vec::new()),
        });
        Ok(())
    }

    fn mark(&mut self, pool: &Pool, volumes: Option<&Volumes>, budget_bytes: u64) -> Result<()> {
        if self.basis.is_none() {
            return self.begin(pool, volumes);
        }
        let Some(mut basis) = self.basis.take() else {
            return Ok(());
        };
        let done = self.mark_more(pool, &mut basis, budget_bytes / REFERENCE_BYTES + 1);
        self.basis = Some(basis);
        if done? {
            self.stage = GcStage::Deleting;
        }
        Ok(())
    }

    fn mark_more(&mut self, pool: &Pool, basis: &mut Basis, references: u64) -> Result<bool> {
        if !self.marking.is_full()
            && let Some(from) = basis.cursor.take()
        {
            basis.cursor = self.mark_catalog(pool, basis, &from)?;
            return Ok(false);
        }
        let settled = settled(&basis.record.next_sequence);
        let sources = Sources {
            chunks: pool.chunks(),
            reader: pool.reader(),
            settled: &settled,
        };
        self.marking.step(&sources, references)?;
        if !self.marking.is_done() || basis.cursor.is_some() {
            return Ok(false);
        }
        // Last, so that what only they need can be counted, and damage below them stops nothing.
        Ok(self.held.follow(&mut self.marking, &mut self.counts))
    }

    /// Marks the nodes of the next part of the catalog and takes up the objects that it names. Where
    /// to go on; `None` at the end.
    fn mark_catalog(&mut self, pool: &Pool, basis: &Basis, from: &[u8]) -> Result<Option<Vec<u8>>> {
        let catalog = basis.record.catalog;
        let (mut objects, mut named) = (Vec::new(), Vec::new());
        let (mut count, mut next) = (0, None);
        let mut nodes = Vec::new();
        let mut load = |f: &Fingerprint| {
            nodes.push(*f);
            pool.reader().map_node(f)
        };
        let _ = visit(catalog, from, &mut load, &mut |key, value| {
            if count == ENTRIES_A_STEP {
                next = Some(key.to_vec());
                return Ok(ControlFlow::Break(()));
            }
            count += 1;
            let damaged = |e: format::bytes::FormatError| {
                StoreError::corruption(e.what, catalog.unwrap_or_default(), e)
            };
            let mut of_snapshot = |s: &Snapshot| {
                named.push((s.taken, s.id));
                (s.root, s.kind == SnapshotKind::Tree)
            };
            match key.first() {
                Some(&SNAPSHOT_KEY_TAG) => {
                    let snapshot = Snapshot::decode(key, value).map_err(damaged)?;
                    objects.push(of_snapshot(&snapshot));
                }
                Some(&VOLUME_KEY_TAG) => {
                    let volume = VolumeRecord::decode(key, value).map_err(damaged)?;
                    objects.push((volume.root, false));
                }
                _ => {
                    if let Some(Trash::Snapshot(forgotten)) = parse_trash(key, value)?
                        && !(self.policy.dry_run && self.is_expired(pool, basis.held, &forgotten))
                    {
                        objects.push(of_snapshot(&forgotten.snapshot));
                    }
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        for node in nodes {
            self.marking.push_catalog_node(node);
        }
        named.iter().for_each(|name| self.held.is_named(*name));
        for (root, is_tree) in objects {
            self.marking.push(&root, is_tree);
        }
        Ok(next)
    }
}

impl Needed for Marking {
    fn object(&mut self, root: &ObjectRoot) {
        self.push(root, false);
    }

    fn chunk(&mut self, fingerprint: Fingerprint) {
        self.push_stray(fingerprint);
    }
}

/// True for containers that the commit with these marks, or one before it, has entered.
fn settled(marks: &BTreeMap<WriterId, u64>) -> impl Fn(ContainerId) -> bool + '_ {
    |id| {
        marks
            .get(&id.writer())
            .is_some_and(|next| id.sequence() < *next)
    }
}

/// True when the period that began when something came into the trash is over.
fn is_over(pool: &Pool, policy: &GcPolicy, since: Discarded, period_ns: i64) -> bool {
    let now = pool.now();
    let since = since.reckoned(now, policy.ahead).unwrap_or(now);
    now.0 >= since.0.saturating_add(period_ns)
}

fn invalid(why: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, why)
}

#[cfg(test)]
mod tests;
