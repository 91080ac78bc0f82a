//! Records what each block of a file system is: sorted runs, 16 bytes each, in slices of equal
//! length. File systems claim and free blocks here; lookups search one slice.
//!
//! A claim may be as long as the file system: [`Runs::enter`] does a bounded part of it.
//!
//! Invariant: runs of a slice are sorted, do not overlap and lie within it. `FIXED` runs are never
//! replaced by claims of inodes or by bitmaps. A gap is unknown.

use std::ops::Range;

/// Owner of runs that belong to no inode: their `logical` is a kind.
pub const NO_INODE: u32 = 0;
/// Kind: metadata at a fixed place.
pub const FIXED: u32 = 1;
/// Kind: metadata that the file system may free.
pub const LOOSE: u32 = 2;
/// Kind: not used.
pub const FREE: u32 = 3;
/// `logical` of blocks that hold an inode's tree.
pub const TREE: u32 = u32::MAX;

/// Blocks with one owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// First block, counted from the start of the slice.
    pub start: u32,
    /// Number of blocks.
    pub len: u32,
    /// Inode, or [`NO_INODE`].
    pub owner: u32,
    /// First block in the file, [`TREE`], or the kind.
    pub logical: u32,
}

impl Run {
    fn end(&self) -> u32 {
        self.start.saturating_add(self.len)
    }

    fn is_counted(&self) -> bool {
        self.owner != NO_INODE && self.logical != TREE
    }

    /// The part of the run in `range`.
    fn clip(&self, range: &Range<u32>) -> Option<Self> {
        let (start, end) = (self.start.max(range.start), self.end().min(range.end));
        if start >= end {
            return None;
        }
        let logical = if self.is_counted() {
            self.logical.saturating_add(start - self.start)
        } else {
            self.logical
        };
        Some(Self {
            start,
            len: end - start,
            logical,
            ..*self
        })
    }

    fn precedes(&self, next: &Self) -> bool {
        let continued = if self.is_counted() {
            next.logical != TREE && self.logical.checked_add(self.len) == Some(next.logical)
        } else {
            self.logical == next.logical
        };
        self.end() == next.start && self.owner == next.owner && continued
    }

    fn is_rival(&self, of: u32) -> bool {
        self.owner != NO_INODE && self.owner != of
    }

    fn rival(&self, of: u32, rivals: &mut Vec<u32>) {
        if self.is_rival(of) && rivals.last() != Some(&self.owner) {
            rivals.push(self.owner);
        }
    }

    /// Metadata at a fixed place.
    pub fn is_fixed(&self) -> bool {
        (self.owner, self.logical) == (NO_INODE, FIXED)
    }

    /// Blocks that nobody uses.
    pub fn is_free(&self) -> bool {
        (self.owner, self.logical) == (NO_INODE, FREE)
    }
}

/// A claim on blocks by absolute number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// First block.
    pub block: u64,
    /// Number of blocks.
    pub len: u32,
    /// First block in the file, [`TREE`], or a kind.
    pub logical: u32,
}

/// Owner of a block, and of those after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// Owner and logical block; `None` is a gap.
    pub owner: Option<(u32, u32)>,
    /// Blocks from the one asked for that are alike.
    pub len: u64,
}

/// See the module.
pub struct Runs {
    slices: Vec<Vec<Run>>,
    slice_blocks: u32,
    blocks: u64,
    runs_capacity: usize,
    known_blocks: u64,
    work: u64,
}

/// Claims of one owner on their way into the map.
pub struct Entering {
    /// Inode, or [`NO_INODE`].
    pub owner: u32,
    /// All of them.
    pub claims: Vec<Claim>,
    next: usize,
    /// Blocks of the next claim that are in the map.
    done: u32,
}

impl Entering {
    /// None of them is entered yet.
    pub fn new(owner: u32, claims: Vec<Claim>) -> Self {
        Self {
            owner,
            claims,
            next: 0,
            done: 0,
        }
    }

    /// The rest of the next claim.
    fn rest(&self) -> Option<Claim> {
        let claim = self.claims.get(self.next)?;
        let is_counted = self.owner != NO_INODE && claim.logical != TREE;
        Some(Claim {
            block: claim.block.saturating_add(u64::from(self.done)),
            len: claim.len.saturating_sub(self.done),
            logical: match is_counted {
                true => claim.logical.saturating_add(self.done),
                false => claim.logical,
            },
        })
    }

    /// Memory of the claims, bytes.
    pub fn memory_bytes(&self) -> usize {
        self.claims.capacity() * size_of::<Claim>()
    }
}

/// Work of a step on claims, before others have their turn.
const WORK_A_STEP: u64 = 512;
/// Shortest slice, blocks: long enough for a claim to be in few of them.
const SLICE_BLOCKS_MIN: u64 = 1 << 15;
/// Runs that are moved or looked through with a unit of work.
const RUNS_A_UNIT: u64 = 64;

fn work_of(runs: usize) -> u64 {
    1 + runs as u64 / RUNS_A_UNIT
}

fn blocks_of(runs: &[Run]) -> u64 {
    runs.iter().map(|run| u64::from(run.len)).sum()
}

fn push(runs: &mut Vec<Run>, run: Run) {
    match runs.last_mut() {
        Some(last) if last.precedes(&run) => last.len = last.len.saturating_add(run.len),
        _ => runs.push(run),
    }
}

impl Runs {
    /// Length of slices for `blocks` blocks, so that those without runs take an eighth of the
    /// memory at most.
    pub fn slice_blocks(blocks: u64, memory_max: u64) -> u32 {
        let slices_max = (memory_max / 8 / size_of::<Vec<Run>>() as u64).max(1);
        let least = blocks.div_ceil(slices_max).max(SLICE_BLOCKS_MIN);
        u32::try_from(least).unwrap_or(u32::MAX)
    }

    /// Nothing known of `blocks` blocks. The caller has bounded `blocks / slice_blocks`.
    pub fn new(blocks: u64, slice_blocks: u32) -> Self {
        let slice_blocks = slice_blocks.max(1);
        let slices = blocks.div_ceil(u64::from(slice_blocks)) as usize;
        Self {
            slices: vec![Vec::new(); slices],
            slice_blocks,
            blocks,
            runs_capacity: 0,
            known_blocks: 0,
            work: 0,
        }
    }

    /// Blocks that are in a run.
    pub fn known_blocks(&self) -> u64 {
        self.known_blocks
    }

    /// The work since [`Self::take_work`].
    pub fn work(&self) -> u64 {
        self.work
    }

    /// Returns the work since the last call.
    pub fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.work)
    }

    /// Memory that this uses, bytes.
    pub fn memory_bytes(&self) -> usize {
        self.runs_capacity * size_of::<Run>() + self.slices.len() * size_of::<Vec<Run>>()
    }

    /// Number of slices.
    pub fn slices(&self) -> u32 {
        self.slices.len() as u32
    }

    /// The slice of a block.
    pub fn slice_of(&self, block: u64) -> u32 {
        (block / u64::from(self.slice_blocks)) as u32
    }

    /// First block of a slice.
    pub fn start_of(&self, slice: u32) -> u64 {
        u64::from(slice) * u64::from(self.slice_blocks)
    }

    /// Runs of a slice.
    pub fn of(&self, slice: u32) -> &[Run] {
        self.slices.get(slice as usize).map_or(&[], Vec::as_slice)
    }

    /// The block and its like neighbours after it, within its slice.
    pub fn find(&self, block: u64) -> Found {
        let slice = self.slice_of(block);
        let at = (block % u64::from(self.slice_blocks)) as u32;
        let runs = self.of(slice);
        let next = runs.partition_point(|run| run.start <= at);
        let before = next.checked_sub(1).and_then(|n| runs.get(n));
        if let Some(run) = before.filter(|run| run.end() > at)
            && let Some(part) = run.clip(&(at..run.end()))
        {
            return Found {
                owner: Some((part.owner, part.logical)),
                len: u64::from(part.len),
            };
        }
        let end = runs.get(next).map_or(self.slice_blocks, |run| run.start);
        Found {
            owner: None,
            len: u64::from(end.saturating_sub(at).max(1)),
        }
    }

    /// Splits blocks by slice and clips them to the file system.
    fn parts(&self, block: u64, len: u64) -> impl Iterator<Item = (u32, Range<u32>)> + use<> {
        let end = block.saturating_add(len).min(self.blocks);
        let (mut at, per) = (block, u64::from(self.slice_blocks));
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let slice = at / per;
                let until = ((slice + 1) * per).min(end);
                let range = (at % per) as u32..(until - slice * per) as u32;
                at = until;
                (slice as u32, range)
            })
        })
    }

    /// Replaces the runs in `range` of a slice by those that `change` pushes for it.
    fn rewrite(
        &mut self,
        slice: u32,
        range: Range<u32>,
        change: impl FnOnce(&[Run], &mut Vec<Run>),
    ) {
        let Some(runs) = self.slices.get_mut(slice as usize) else {
            return;
        };
        let from = runs.partition_point(|run| run.end() <= range.start);
        let to = runs.partition_point(|run| run.start < range.end).max(from);
        let old = runs.get(from..to).unwrap_or_default();
        let mut new = Vec::with_capacity(old.len() + 2);
        // Neighbours take part, so that runs which continue them become one.
        let from = from.saturating_sub(1);
        let to = (to + 1).min(runs.len());
        let around = runs.get(from..to).unwrap_or_default();
        self.work += work_of(runs.len() - from + 8 * around.len());
        for run in around {
            new.extend(run.clip(&(0..range.start)));
        }
        let inside: Vec<Run> = around.iter().filter_map(|run| run.clip(&range)).collect();
        change(&inside, &mut new);
        let mut joined = Vec::with_capacity(new.len() + 2);
        for run in new {
            push(&mut joined, run);
        }
        for run in around {
            if let Some(rest) = run.clip(&(range.end..u32::MAX)) {
                push(&mut joined, rest);
            }
        }
        self.known_blocks += blocks_of(&joined);
        self.known_blocks -= blocks_of(around);
        let before = runs.capacity();
        let more = joined.len().saturating_sub(to - from);
        if more > runs.capacity() - runs.len() {
            // Doubling would take more than the budget of a nearly full map has.
            runs.reserve_exact(more.max(runs.len() / 8 + 1));
        }
        runs.splice(from..to, joined);
        if runs.capacity() > 16 && runs.len() < runs.capacity() / 2 {
            runs.shrink_to_fit();
        }
        self.runs_capacity = self.runs_capacity + runs.capacity() - before;
    }

    /// Gives blocks to an owner in each slice that `takes` wants, except fixed metadata, and except
    /// blocks of other inodes if it `yields`. Adds these inodes to `rivals`.
    pub fn claim(
        &mut self,
        owner: u32,
        claim: Claim,
        yields: bool,
        rivals: &mut Vec<u32>,
        mut takes: impl FnMut(u32) -> bool,
    ) {
        let is_counted = owner != NO_INODE && claim.logical != TREE;
        let mut logical = claim.logical;
        for (slice, range) in self.parts(claim.block, u64::from(claim.len)) {
            let whole = Run {
                start: range.start,
                len: range.end - range.start,
                owner,
                logical,
            };
            if is_counted {
                logical = logical.saturating_add(whole.len);
            }
            if !takes(slice) {
                continue;
            }
            self.rewrite(slice, range.clone(), |old, new| {
                let mut at = range.start;
                old.iter().for_each(|run| run.rival(owner, rivals));
                let stays = |run: &&Run| run.is_fixed() || (yields && run.is_rival(owner));
                for fixed in old.iter().filter(stays) {
                    new.extend(whole.clip(&(at..fixed.start)));
                    new.push(*fixed);
                    at = fixed.end();
                }
                new.extend(whole.clip(&(at..range.end)));
            });
        }
    }

    /// Continues with claims, as [`Self::claim`] does, for a bounded time. `takes` is also given
    /// whether the blocks hold a tree. Returns true at the end.
    pub fn enter(
        &mut self,
        entering: &mut Entering,
        yields: bool,
        rivals: &mut Vec<u32>,
        mut takes: impl FnMut(u32, bool) -> bool,
    ) -> bool {
        let until = self.work + WORK_A_STEP;
        while let Some(rest) = entering.rest() {
            if self.work >= until {
                return false;
            }
            self.work += 1;
            // As much as lies in one slice.
            let here = u64::from(self.slice_blocks) - rest.block % u64::from(self.slice_blocks);
            let len = rest.len.min(u32::try_from(here).unwrap_or(u32::MAX));
            let claim = Claim { len, ..rest };
            let is_tree = claim.logical == TREE;
            self.claim(entering.owner, claim, yields, rivals, |slice| {
                takes(slice, is_tree)
            });
            if len == rest.len {
                entering.next += 1;
                entering.done = 0;
            } else {
                entering.done += len;
            }
        }
        true
    }

    /// Makes blocks unknown where `goes` says so.
    pub fn forget(&mut self, block: u64, len: u64, goes: impl Fn(&Run) -> bool) {
        for (slice, range) in self.parts(block, len) {
            self.rewrite(slice, range, |old, new| {
                new.extend(old.iter().filter(|run| !goes(run)));
            });
        }
    }

    /// Makes blocks of a slice unknown where `goes` says so.
    pub fn forget_in(&mut self, slice: u32, goes: impl Fn(&Run) -> bool) {
        let Some(runs) = self.slices.get_mut(slice as usize) else {
            return;
        };
        let before = runs.capacity();
        self.work += work_of(runs.len());
        self.known_blocks -= blocks_of(runs);
        runs.retain(|run| !goes(run));
        self.known_blocks += blocks_of(runs);
        if runs.capacity() > 16 && runs.len() < runs.capacity() / 2 {
            runs.shrink_to_fit();
        }
        self.runs_capacity = self.runs_capacity + runs.capacity() - before;
    }

    /// Applies a bitmap: blocks in `free` (sorted ranges, absolute) become free, others of the
    /// `len` blocks from `block` stop being free. Blocks of inodes stay theirs if it `yields`;
    /// otherwise adds the inodes that owned freed blocks to `rivals`.
    pub fn mark_free(
        &mut self,
        block: u64,
        len: u64,
        free: &[Range<u64>],
        yields: bool,
        rivals: &mut Vec<u32>,
    ) {
        for (slice, range) in self.parts(block, len) {
            let start = self.start_of(slice);
            let from = start + u64::from(range.start);
            let first = free.partition_point(|part| part.end <= from);
            let free = free.get(first..).unwrap_or_default();
            let inside = |part: &Range<u64>| {
                let clip = |at: u64| {
                    at.saturating_sub(start)
                        .clamp(u64::from(range.start), u64::from(range.end))
                        as u32
                };
                clip(part.start)..clip(part.end)
            };
            self.rewrite(slice, range.clone(), |old, new| {
                let mut free = free
                    .iter()
                    .map(inside)
                    .take_while(|part| part.start < part.end)
                    .peekable();
                let mut old = old.iter().copied().peekable();
                // Sweeps both sorted lists once.
                let mut at = range.start;
                while at < range.end {
                    while free.next_if(|part| part.end <= at).is_some() {}
                    while old.next_if(|run| run.end() <= at).is_some() {}
                    let (is_free, until) = match free.peek() {
                        Some(part) if part.start <= at => (true, part.end),
                        Some(part) => (false, part.start),
                        None => (false, range.end),
                    };
                    let (run, end) = match old.peek() {
                        Some(run) if run.start <= at => (Some(*run), run.end().min(until)),
                        Some(run) => (None, run.start.min(until)),
                        None => (None, until),
                    };
                    let kept = run.and_then(|run| run.clip(&(at..end)));
                    let stays = |run: &Run| {
                        run.is_fixed()
                            || (yields && run.owner != NO_INODE)
                            || (!is_free && !run.is_free())
                    };
                    if let Some(run) = kept.filter(|run| is_free && !stays(run)) {
                        run.rival(NO_INODE, rivals);
                    }
                    let kept = kept.filter(stays);
                    let freed = Run {
                        start: at,
                        len: end - at,
                        owner: NO_INODE,
                        logical: FREE,
                    };
                    new.extend(kept.or(is_free.then_some(freed)));
                    at = end;
                }
            });
        }
    }
}

#[cfg(test)]
mod tests;
