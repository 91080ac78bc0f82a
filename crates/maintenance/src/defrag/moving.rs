//! Copies a round of moves: those mostly in memory first, else by heat. Duet's driver calls this.
//!
//! Moves into small regions are a round of their own, in the order of their objects: who scans one
//! later finds many of its copies side by side.
//!
//! Invariant: a unit of work is a move; its number is the move's rank by heat. A move is done when
//! it is copied, and counts once it is committed.

use super::step_budget::StepBudget;
use super::{DefragSource, memory_of, small};
use duet::{Page, Processed, Space, Task, Work};
use format::recipe::{Layout, ObjectRoot};
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{
    Copying, Fragmentable, LaneOptions, Move, MoveCounts, Mover, Places, Result, StoreError,
};

/// Plain bytes between two commits: the work that a crash loses.
const COMMIT_BYTES: u64 = 256 << 20;

/// Ranges of an object that are moved.
struct Moved {
    root: ObjectRoot,
    /// First byte of each range, to the first byte after it and the rank.
    ranges: BTreeMap<u64, (u64, u64)>,
}

/// See the module's head.
pub struct Moving {
    source: DefragSource,
    lane: LaneOptions,
    /// By rank.
    moves: Vec<Move>,
    objects: BTreeMap<u64, Moved>,
    /// From numbers in the page cache to keys.
    cached_as: BTreeMap<u64, u64>,
    /// Roots of the objects, if an earlier process may have copied some of the moves.
    resumed: Option<BTreeMap<u64, ObjectRoot>>,
    mover: Option<Mover>,
    /// The move in progress.
    copying: Option<(u64, Copying)>,
    /// Moves that were copied, or failed, since the last commit.
    copied: Vec<u64>,
    /// Moves that were committed, by rank.
    is_settled: Vec<bool>,
    /// Committed copies.
    settled: MoveCounts,
    /// Commit when the current move is complete.
    is_commit_due: bool,
}

impl Moving {
    /// Creates the task. `before` was copied in earlier rounds. `is_resumed`: an earlier process
    /// may have copied some of the moves.
    pub fn new(
        source: DefragSource,
        lane: LaneOptions,
        mut moves: Vec<Move>,
        owners: &[Fragmentable],
        before: MoveCounts,
        is_resumed: bool,
    ) -> Self {
        // Equally hot moves keep the order of the object: neighbours are then stored side by side,
        // and a sequential reader does not seek between them.
        // Small ones all do.
        let heat = |one: &Move| if one.is_small { 0 } else { one.weight };
        moves.sort_by_key(|one| (std::cmp::Reverse(heat(one)), one.object, one.start()));
        let mut objects: BTreeMap<u64, Moved> = BTreeMap::new();
        let mut cached_as = BTreeMap::new();
        for (rank, one) in (0u64..).zip(&moves) {
            let Some(owner) = owners.iter().find(|o| o.key == one.object) else {
                continue;
            };
            if let Some(number) = owner.cached_as {
                cached_as.insert(number, owner.key);
            }
            let moved = objects.entry(one.object).or_insert_with(|| Moved {
                root: owner.root,
                ranges: BTreeMap::new(),
            });
            for part in &one.parts {
                moved.ranges.insert(part.start, (part.end, rank));
            }
        }
        let roots = || objects.iter().map(|(key, moved)| (*key, moved.root));
        Self {
            resumed: is_resumed.then(|| roots().collect()),
            source,
            lane: match moves.first().is_some_and(|one| one.is_small) {
                true => small::lane(lane),
                false => lane,
            },
            is_settled: vec![false; moves.len()],
            moves,
            objects,
            cached_as,
            mover: None,
            copying: None,
            copied: Vec::new(),
            settled: before,
            is_commit_due: false,
        }
    }

    /// Returns the moves that are not committed.
    pub fn unsettled(&self) -> impl Iterator<Item = &Move> {
        let all = self.moves.iter().zip(&self.is_settled);
        all.filter(|(_, is_settled)| !**is_settled)
            .map(|(one, _)| one)
    }

    /// Returns true if the copies go into small regions. Then all moves of the round are such.
    pub fn is_small(&self) -> bool {
        self.moves.first().is_some_and(|one| one.is_small)
    }

    /// Returns the committed copies.
    pub fn settled(&self) -> MoveCounts {
        self.settled
    }

    /// Returns all copies. Stored bytes include only committed ones.
    pub fn counts(&self) -> MoveCounts {
        let open = self.mover.as_ref().map(Mover::counts);
        sum(self.settled, open.unwrap_or_default())
    }

    /// Requests a commit as soon as the current move is complete. An earlier commit would split it
    /// over two containers.
    pub fn commit_soon(&mut self) {
        self.is_commit_due = true;
    }

    /// Completes the current move and commits all copies, so that nothing is copied again.
    pub fn settle(&mut self) -> Result<MoveCounts> {
        if let Some((rank, _)) = self.copying {
            let pool = Arc::clone(self.source.pool());
            let budget = StepBudget::begin(&pool, u64::MAX);
            match self.copy(rank, &budget, u64::MAX) {
                Ok(_) => self.copied.push(rank),
                // The range stays as it is. Its error is reported when it is tried again.
                Err(e) if e.is_corruption() => {}
                Err(e) => return Err(e),
            }
        }
        self.commit()
    }

    fn is_copied(&self, rank: u64) -> bool {
        let is_settled = self.is_settled.get(rank as usize).copied();
        is_settled.unwrap_or(false) || self.copied.contains(&rank)
    }

    /// Commits the copies.
    pub fn commit(&mut self) -> Result<MoveCounts> {
        if let Some(mover) = self.mover.take() {
            self.settled = sum(self.settled, mover.commit(self.source.pool())?);
        }
        self.is_commit_due = false;
        for rank in self.copied.drain(..) {
            if let Some(is_settled) = self.is_settled.get_mut(rank as usize) {
                *is_settled = true;
            }
        }
        Ok(self.settled)
    }

    /// Returns true if an earlier process has copied the move, or the object has changed since.
    fn needs_nothing(&self, one: &Move) -> Result<bool> {
        let Some(roots) = &self.resumed else {
            return Ok(false);
        };
        let places = Places::new(self.source.pool(), roots, self.lane.container_bytes);
        match one.is_small {
            true => small::is_done(&places, one.object, &one.parts),
            false => places.are_together(one.object, &one.parts),
        }
    }

    /// Copies a part of a move.
    fn copy(&mut self, rank: u64, budget: &StepBudget<'_>, budget_bytes: u64) -> Result<Processed> {
        let mut processed = Processed {
            is_done: true,
            ..Processed::default()
        };
        let one = self.moves.get(rank as usize);
        let Some((one, moved)) = one.and_then(|one| Some((one, self.objects.get(&one.object)?)))
        else {
            return Ok(processed);
        };
        let begun = self.copying.take().filter(|(begun, _)| *begun == rank);
        if begun.is_none() && (self.is_copied(rank) || self.needs_nothing(one)?) {
            return Ok(processed);
        }
        let pool = self.source.pool();
        let is_new = self.mover.is_none();
        let mover = match &mut self.mover {
            Some(mover) => mover,
            none => none.insert(Mover::begin(pool, self.lane)?),
        };
        let mut copying = match begun {
            Some((_, copying)) if is_new => {
                mover.take_over(&copying)?;
                copying
            }
            Some((_, copying)) => copying,
            None => mover.begin_parts(pool, &moved.root, &one.parts)?,
        };
        let is_enough = &mut |bytes: u64| bytes >= budget_bytes || budget.is_spent();
        let counts = mover.go_on(pool, memory_of(&self.source), &mut copying, is_enough)?;
        processed.bytes_cached = counts.cached_bytes;
        processed.bytes_read = counts.bytes - counts.cached_bytes;
        processed.bytes_written = counts.bytes;
        processed.is_done = copying.is_done();
        self.copying = (!processed.is_done).then_some((rank, copying));
        Ok(processed)
    }
}

fn sum(a: MoveCounts, b: MoveCounts) -> MoveCounts {
    MoveCounts {
        chunks: a.chunks + b.chunks,
        bytes: a.bytes + b.bytes,
        cached_bytes: a.cached_bytes + b.cached_bytes,
        stored_bytes: a.stored_bytes + b.stored_bytes,
    }
}

fn log2(root: &ObjectRoot) -> Option<u8> {
    match root.layout {
        Layout::Fixed(log2) => Some(log2),
        Layout::Variable => None,
    }
}

impl Task for Moving {
    type Error = StoreError;

    fn work_of(&self, page: &Page) -> Option<Work> {
        if page.space != Space::Chunks {
            return None;
        }
        let moved = self.objects.get(self.cached_as.get(&page.object)?)?;
        let at = page.index.checked_shl(log2(&moved.root)?.into())?;
        let (_, (end, rank)) = moved.ranges.range(..=at).next_back()?;
        (at < *end).then_some(Work {
            object: 0,
            part: *rank,
        })
    }

    fn pages(&self, work: Work) -> u64 {
        let Some(one) = self.moves.get(work.part as usize) else {
            return 1;
        };
        let root = self.objects.get(&one.object).map(|moved| &moved.root);
        let log2 = root.and_then(log2).unwrap_or(12);
        (one.bytes() >> log2).max(1)
    }

    fn next(&mut self, after: Option<Work>) -> Result<Option<Work>> {
        let part = after.map_or(0, |work| work.part.saturating_add(1));
        let is_there = part < self.moves.len() as u64;
        Ok(is_there.then_some(Work { object: 0, part }))
    }

    fn process(&mut self, work: Work, budget_bytes: u64) -> Result<Processed> {
        let pool = Arc::clone(self.source.pool());
        let budget = StepBudget::begin(&pool, budget_bytes);
        let processed = self.copy(work.part, &budget, budget_bytes);
        if processed.as_ref().is_ok_and(|processed| !processed.is_done) {
            return processed;
        }
        // An unreadable range is not tried again.
        self.copied.push(work.part);
        let open = self.mover.as_ref().map_or(0, |mover| mover.counts().bytes);
        if open >= COMMIT_BYTES || self.is_commit_due {
            self.commit()?;
        }
        processed
    }
}
