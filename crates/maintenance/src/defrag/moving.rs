//! The task of a round of moves: most in memory first, else by heat.
//!
//! Invariant: a work is a move, its number the move's rank by heat; a move is done when it is copied, and
//! counts when a commit was made. Called by the driver.

use super::{DefragSource, memory_of};
use duet::{Page, Processed, Space, Task, Work};
use format::recipe::{Layout, ObjectRoot};
use std::collections::BTreeMap;
use store::{Fragmentable, LaneOptions, Move, MoveCounts, Mover, Result, StoreError};

/// Plain bytes between two commits: what a crash loses of the work.
const COMMIT_BYTES: u64 = 256 << 20;

/// What of an object is moved.
struct Moved {
    root: ObjectRoot,
    /// By the first byte: the first byte after it, and the rank.
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
    mover: Option<Mover>,
    /// What commits have made count.
    settled: MoveCounts,
}

impl Moving {
    /// `before` was moved by earlier rounds.
    pub fn new(
        source: DefragSource,
        lane: LaneOptions,
        mut moves: Vec<Move>,
        owners: &[Fragmentable],
        before: MoveCounts,
    ) -> Self {
        // Among equals the order of the object: neighbours then lie side by side, and a reader of them all
        // does not jump from one to the next.
        moves.sort_by_key(|one| (std::cmp::Reverse(one.weight), one.object, one.start()));
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
        Self {
            source,
            lane,
            moves,
            objects,
            cached_as,
            mover: None,
            settled: before,
        }
    }

    /// What was copied; its stored bytes when a commit has counted them.
    pub fn counts(&self) -> MoveCounts {
        let open = self.mover.as_ref().map(Mover::counts);
        sum(self.settled, open.unwrap_or_default())
    }

    /// Makes what was copied count.
    pub fn commit(&mut self) -> Result<MoveCounts> {
        if let Some(mover) = self.mover.take() {
            self.settled = sum(self.settled, mover.commit(self.source.pool())?);
        }
        Ok(self.settled)
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

    fn process(&mut self, work: Work, _budget_bytes: u64) -> Result<Processed> {
        let mut processed = Processed {
            is_done: true,
            ..Processed::default()
        };
        let one = self.moves.get(work.part as usize);
        let Some((one, moved)) = one.and_then(|one| Some((one, self.objects.get(&one.object)?)))
        else {
            return Ok(processed);
        };
        let pool = self.source.pool();
        let mover = match &mut self.mover {
            Some(mover) => mover,
            none => none.insert(Mover::begin(pool, self.lane)?),
        };
        let memory = memory_of(&self.source);
        let counts = mover.move_parts(pool, memory, &moved.root, &one.parts)?;
        processed.bytes_cached = counts.cached_bytes;
        processed.bytes_read = counts.bytes - counts.cached_bytes;
        processed.bytes_written = counts.bytes;
        if mover.counts().bytes >= COMMIT_BYTES {
            self.commit()?;
        }
        Ok(processed)
    }
}
