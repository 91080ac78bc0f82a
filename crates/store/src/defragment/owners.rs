//! Estimates how much each move would fragment other objects that share the chunks. `maintenance`
//! calls this.
//!
//! A move hurts another owner if a range that this owner reads at once would be in more pieces
//! after it. Such a range comes from the trace or, without a trace, is a window of 128 KiB of a
//! disk or a segment of a stream. An owner that has the same chunks contiguously moves along and is
//! not hurt.
//!
//! Invariant: a move counts as fair only if it serves more requests than it hurts
//! ([`Move::is_fair`]).

use super::places::{Extent, Finder, runs};
use crate::pool::Pool;
use chunk_store::Result;
use chunk_store::chunk_map::{FingerprintMap, FingerprintSet};
use format::recipe::{Layout, ObjectRoot};
use fragpicker::{SEGMENT_BYTES, WINDOW_BYTES};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use units::{ContainerId, Fingerprint};

/// Ranges of an object whose chunks will be moved together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// Key of the object.
    pub object: u64,
    /// The ranges, bytes, ascending and not adjacent.
    pub parts: Vec<Range<u64>>,
    /// Weight of the requests for them.
    pub weight: u64,
    /// Number of runs of adjacent regions in which they are now.
    pub runs: u64,
    /// Weight of other owners' requests, for each additional run.
    pub hurts: u64,
    /// Each chunk is read alone: the copies go into small regions.
    pub is_small: bool,
}

impl Move {
    /// Returns the first byte in the object.
    pub fn start(&self) -> u64 {
        self.parts.first().map_or(0, |part| part.start)
    }

    /// Returns the total length of the ranges, bytes.
    pub fn bytes(&self) -> u64 {
        let bytes = |part: &Range<u64>| part.end.saturating_sub(part.start);
        self.parts.iter().map(bytes).sum()
    }

    /// Returns true if it serves more than it hurts.
    pub fn is_fair(&self) -> bool {
        let serves = self.weight.saturating_mul(self.runs.saturating_sub(1));
        self.hurts == 0 || serves > self.hurts
    }
}

/// Moves that are judged together.
pub struct Moves {
    pool: Arc<Pool>,
    finder: Finder,
    moves: Vec<Move>,
    /// For each moved chunk, the number of its move.
    chunks: FingerprintMap<usize>,
    /// Recipe nodes that were visited.
    seen: FingerprintSet,
    /// The root and the end of the leaf of which only the first windows were weighed.
    open: Option<(Fingerprint, u64)>,
}

impl Moves {
    /// Creates an empty set.
    pub fn new(pool: &Arc<Pool>) -> Self {
        Self {
            pool: Arc::clone(pool),
            finder: Finder::new(pool),
            moves: Vec::new(),
            chunks: FingerprintMap::default(),
            seen: FingerprintSet::default(),
            open: None,
        }
    }

    /// Adds a move of this object and reads which chunks it contains.
    pub fn add(&mut self, root: &ObjectRoot, one: Move) -> Result<()> {
        let (chunks, number) = (&mut self.chunks, self.moves.len());
        let visit = &mut |_, _, f: Fingerprint| {
            if !f.is_hole() {
                chunks.entry(f).or_insert(number);
            }
            Ok(ControlFlow::Continue(()))
        };
        for part in &one.parts {
            self.pool
                .reader()
                .visit_pieces(root, part.start, part.end, visit)?;
        }
        self.moves.push(one);
        Ok(())
    }

    /// Returns the moves so far.
    pub fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// Returns the moves with their weights.
    pub fn into_moves(self) -> Vec<Move> {
        self.moves
    }

    /// Records that an owner reads this range of an object at once, with this weight.
    pub fn weigh(&mut self, root: &ObjectRoot, range: Range<u64>, weight: u64) -> Result<()> {
        let mut window = Vec::new();
        let Range { start, end } = range;
        let visit = &mut |_, _, f| {
            window.push(f);
            Ok(ControlFlow::Continue(()))
        };
        self.pool.reader().visit_pieces(root, start, end, visit)?;
        self.weigh_window(&window, weight)
    }

    /// Records that an owner reads all windows of an object, with this weight: weighs the window at
    /// `at`, unless another owner has the same leaf of the recipe and was weighed. Returns where to
    /// continue.
    pub fn weigh_next(&mut self, root: &ObjectRoot, at: u64, weight: u64) -> Result<u64> {
        let is_open = |(of, end): &(Fingerprint, u64)| *of == root.fingerprint && at < *end;
        let (next, leaf) = match self.open.take().filter(is_open) {
            Some((_, end)) => (end, Some(at..end)),
            None => self.leaf(root, at)?,
        };
        let Some(leaf) = leaf else {
            return Ok(next);
        };
        let window_bytes = read_at_once(root);
        let window_end = (leaf.start / window_bytes + 1).saturating_mul(window_bytes);
        let end = window_end.min(leaf.end);
        let mut window = Vec::new();
        let visit = &mut |offset: u64, _, f| {
            // Earlier pieces belong to the window before.
            if offset >= leaf.start {
                window.push(f);
            }
            Ok(ControlFlow::Continue(()))
        };
        self.pool
            .reader()
            .visit_pieces(root, leaf.start, end, visit)?;
        self.weigh_window(&window, weight)?;
        self.open = (end < next).then_some((root.fingerprint, next));
        Ok(end)
    }

    /// Like [`Self::weigh_next`], for an owner that an earlier process weighed up to `asked`: only
    /// records that. Reads no leaf.
    pub fn pass(&mut self, root: &ObjectRoot, at: u64, asked: u64) -> Result<u64> {
        let next = self.leaf(root, at)?.0;
        self.open = (asked < next).then_some((root.fingerprint, next));
        Ok(next.min(asked.max(at.saturating_add(1))))
    }

    /// Returns the end of the recipe's leaf at `at`, and its range unless it was visited before.
    fn leaf(&mut self, root: &ObjectRoot, at: u64) -> Result<(u64, Option<Range<u64>>)> {
        let mut fingerprint = root.fingerprint;
        let (mut from, mut to) = (0u64, root.len);
        let past = at.saturating_add(1);
        for level in (1..=root.level).rev() {
            if fingerprint.is_hole() {
                return Ok((to.max(past), None));
            }
            if level == 1 {
                break;
            }
            // Another owner has begun with everything below this node.
            if at == from && !self.seen.insert(fingerprint) {
                return Ok((to.max(past), None));
            }
            let node = self.pool.reader().recipe_node(&fingerprint)?;
            let mut start = from;
            for (number, child) in node.children.iter().enumerate() {
                let len = match root.layout {
                    Layout::Fixed(log2) => {
                        format::recipe::RecipeNode::fixed_child_bytes(log2, level)
                    }
                    Layout::Variable => node.lengths.get(number).copied().unwrap_or(0),
                };
                let end = start.saturating_add(len).min(to);
                if at < end {
                    (fingerprint, from, to) = (*child, start, end);
                    break;
                }
                start = end;
            }
        }
        if root.level == 0 || fingerprint.is_hole() || !self.seen.insert(fingerprint) {
            return Ok((to.max(past), None));
        }
        Ok((to.max(past), Some(from.max(at)..to)))
    }

    fn weigh_window(&mut self, window: &[Fingerprint], weight: u64) -> Result<()> {
        let moved = |f: &Fingerprint| self.chunks.get(f).copied();
        if !window.iter().any(|f| moved(f).is_some()) {
            return Ok(());
        }
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let mut involved = Vec::new();
        for f in window.iter().filter(|f| !f.is_hole()) {
            // A damaged chunk has no place.
            let Some(extent) = self.finder.find(f)? else {
                continue;
            };
            before.push(extent);
            match moved(f) {
                Some(number) => {
                    involved.push(number);
                    after.push(elsewhere(number));
                }
                None => after.push(extent),
            }
        }
        let more = runs(&mut after).saturating_sub(runs(&mut before));
        if more > 0 {
            involved.sort_unstable();
            involved.dedup();
            for number in involved {
                if let Some(one) = self.moves.get_mut(number) {
                    let hurt = weight.saturating_mul(more);
                    one.hurts = one.hurts.saturating_add(hurt);
                }
            }
        }
        Ok(())
    }
}

/// Returns how much of an object is read at once if no trace tells: segments of streams and files,
/// windows of disks, bytes.
pub fn read_at_once(root: &ObjectRoot) -> u64 {
    match root.layout {
        Layout::Variable => SEGMENT_BYTES,
        Layout::Fixed(_) => WINDOW_BYTES,
    }
}

/// Returns a place for moved chunks that no real chunk has and that is adjacent to none.
fn elsewhere(number: usize) -> Extent {
    Extent {
        container: ContainerId(u64::MAX - number as u64),
        first: 0,
        end: 0,
    }
}
