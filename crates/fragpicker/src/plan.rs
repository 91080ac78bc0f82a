//! Decides which ranges are worth moving. The defragmentation of the store and of a host calls
//! this.
//!
//! Invariant: a plan names only ranges that lie in more pieces than necessary. Its ranges are
//! ascending, disjoint and within the object.

use crate::WINDOW_BYTES;
use crate::analysis::HotRange;
use crate::layout::{ObjectLayout, Piece};
use crate::trace::REQUEST_WEIGHT;
use std::ops::Range;

/// Limits on what may be moved.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlanOptions {
    /// Move pieces that other objects own too.
    pub moves_shared: bool,
}

/// Ranges of an object to move, and the number of those left alone.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MovePlan {
    /// Ranges to move, each into one piece if possible.
    pub ranges: Vec<Range<u64>>,
    /// Bytes to write for that: the bytes of the ranges without holes.
    pub bytes: u64,
    /// Number of ranges that are not fragmented.
    pub whole: u64,
    /// Number of ranges left alone because other objects own some of their pieces too.
    pub shared: u64,
}

/// Plans the move of these ranges, which are ascending and disjoint.
pub fn plan<L: ObjectLayout>(
    layout: &L,
    object: u64,
    ranges: &[HotRange],
    options: PlanOptions,
) -> Result<MovePlan, L::Error> {
    let size = layout.size(object)?;
    let ranges = ranges.iter().map(|range| range.start..range.end.min(size));
    decide(layout, object, ranges, options)
}

/// Plans without a trace: takes each window of 128 KiB that lies in more pieces than necessary.
pub fn bypass<L: ObjectLayout>(
    layout: &L,
    object: u64,
    options: PlanOptions,
) -> Result<MovePlan, L::Error> {
    let ranges = windows(layout.size(object)?).map(|window| window.start..window.end);
    decide(layout, object, ranges, options)
}

/// Yields the windows of an object of `size` bytes, as if each had been requested once.
///
/// [`bypass`] examines the same windows. This is for callers that examine only some of them at a
/// time.
pub fn windows(size: u64) -> impl Iterator<Item = HotRange> {
    let starts = (0..size.div_ceil(WINDOW_BYTES)).map(|n| n * WINDOW_BYTES);
    starts.map(move |start| HotRange {
        start,
        end: size.min(start.saturating_add(WINDOW_BYTES)),
        weight: REQUEST_WEIGHT,
    })
}

fn decide<L: ObjectLayout>(
    layout: &L,
    object: u64,
    ranges: impl Iterator<Item = Range<u64>>,
    options: PlanOptions,
) -> Result<MovePlan, L::Error> {
    let mut plan = MovePlan::default();
    for range in ranges.filter(|range| !range.is_empty()) {
        let pieces = layout.pieces(object, range.clone())?;
        let pieces: Vec<Piece> = pieces.iter().filter_map(|p| within(p, &range)).collect();
        let bytes = pieces.iter().map(|p| p.len).sum();
        if layout.fragments(&pieces) <= layout.pieces_needed(bytes) {
            plan.whole += 1;
        } else if pieces.iter().any(|p| p.is_shared) && !options.moves_shared {
            plan.shared += 1;
        } else {
            plan.ranges.push(range);
            plan.bytes += bytes;
        }
    }
    Ok(plan)
}

/// Returns the part of a piece that lies in a range.
fn within(piece: &Piece, range: &Range<u64>) -> Option<Piece> {
    let start = piece.offset.max(range.start);
    let end = piece.offset.saturating_add(piece.len).min(range.end);
    (start < end).then(|| Piece {
        offset: start,
        len: end - start,
        place: piece.place.saturating_add(start - piece.offset),
        is_shared: piece.is_shared,
    })
}

#[cfg(test)]
mod tests;
