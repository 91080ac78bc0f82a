//! Plans what of a file is worth moving, in spans: FragPicker's hot ranges, or its bypass when no
//! requests were traced. The program calls this for `quintet host defrag`.
//!
//! Invariant: nothing is written. Time and memory do not depend on holes.

use crate::defragment::Skipped;
use crate::extents::{FileLayout, extents, first_data};
use crate::migrate::MigrationError;
use fragpicker::{
    HotRange, MovePlan, ObjectLayout, PlanOptions, REQUEST_WEIGHT, WINDOW_BYTES, plan, windows,
};
use std::fs::File;
use std::io;
use std::ops::Range;

/// Bytes that are planned at once.
const SPAN_BYTES: u64 = 64 << 20;

/// Ranges that are looked at.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// Each window of 128 KiB, whether it is read or not.
    Windows,
    /// These, which are ascending and disjoint.
    Hot(&'a [HotRange]),
}

/// Extents that a plan may move besides fragmented ranges of one owner.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpanOptions {
    /// Extents that other files or snapshots own too.
    pub moves_shared: bool,
    /// Whole ranges between two fragmented ones, up to [`JOINED_BYTES_MAX`] together: on a disk
    /// with arms, reading alternately what was moved and what was not costs a seek for each.
    pub joins: bool,
}

/// Bytes between two fragmented ranges that are moved with them at most. A seek to a longer run
/// costs less than reading it.
pub const JOINED_BYTES_MAX: u64 = 1 << 20;

/// A plan for a span of a file.
#[derive(Debug)]
pub struct SpanPlan {
    /// Where the span ends; the next one begins there.
    pub end: u64,
    /// Ranges to move.
    pub plan: MovePlan,
    /// Ranges left alone.
    pub skipped: Vec<Skipped>,
    /// Requests to the device that the recorded requests for the ranges looked at cost, if each is
    /// for a whole range. Without a trace: if each window is read once.
    pub requests_before: u64,
    /// The same when the plan was carried out.
    pub requests_after: u64,
}

/// Plans the first span at or behind `from` that has something to look at: each wanted range that
/// contains a break. Returns none at the end of the file.
pub fn plan_span(
    file: &File,
    from: u64,
    wanted: Wanted<'_>,
    options: SpanOptions,
) -> io::Result<Option<SpanPlan>> {
    let size = file.metadata()?.len();
    let of_span = match wanted {
        Wanted::Windows => windows_from(file, from, size)?,
        Wanted::Hot(ranges) => ranges_from(ranges, from, size),
    };
    let (Some(first), Some(last)) = (of_span.first(), of_span.last()) else {
        return Ok(None);
    };
    let (start, end) = (first.start, last.end);
    let layout = FileLayout::of(file)?;
    let SpanOptions {
        moves_shared,
        joins,
    } = options;
    let mut plan = plan(&layout, 0, &of_span, PlanOptions { moves_shared })?;
    let mut skipped = Vec::new();
    if plan.shared > 0 {
        skipped.push(Skipped {
            why: MigrationError::Shared,
            ranges: plan.shared,
            bytes: 0,
        });
    }
    refuse_transformed(file, start..end, &mut plan, &mut skipped)?;
    if joins {
        join(&of_span, &mut plan);
    }
    let (mut requests_before, mut requests_after) = (0, 0);
    for range in &of_span {
        let pieces = layout.pieces(0, range.start..range.end)?;
        let (requests, fragments) = (requests(range), layout.fragments(&pieces));
        let is_moved = plan
            .ranges
            .binary_search_by_key(&range.start, |planned| planned.start)
            .is_ok();
        let after = match is_moved {
            true => layout.pieces_needed(range.end - range.start),
            false => fragments,
        };
        requests_before += requests * fragments;
        requests_after += requests * after;
    }
    Ok(Some(SpanPlan {
        end,
        plan,
        skipped,
        requests_before,
        requests_after,
    }))
}

/// Adds the wanted ranges between two planned ones to a plan, where no gap is between them.
fn join(wanted: &[HotRange], plan: &mut MovePlan) {
    let mut joined: Vec<Range<u64>> = Vec::new();
    // Whole ranges behind the last planned one, adjacent to it and to each other.
    let mut between: Vec<Range<u64>> = Vec::new();
    let mut planned = plan.ranges.iter().peekable();
    for range in wanted {
        let last = between.last().or(joined.last());
        let is_adjacent = last.is_some_and(|last| last.end == range.start);
        if !is_adjacent {
            between.clear();
        }
        if planned
            .next_if(|planned| planned.start == range.start)
            .is_some()
        {
            let bytes: u64 = between.iter().map(|range| range.end - range.start).sum();
            if bytes <= JOINED_BYTES_MAX {
                plan.bytes = plan.bytes.saturating_add(bytes);
                joined.append(&mut between);
            }
            between.clear();
            joined.push(range.start..range.end);
        } else if is_adjacent {
            between.push(range.start..range.end);
        }
    }
    plan.ranges = joined;
}

/// A request that has almost been forgotten is one still.
fn requests(range: &HotRange) -> u64 {
    range.weight.div_ceil(REQUEST_WEIGHT)
}

/// Returns the windows of a span that begins at the first data.
fn windows_from(file: &File, from: u64, size: u64) -> io::Result<Vec<HotRange>> {
    let Some(first) = first_data(file, from..size)? else {
        return Ok(Vec::new());
    };
    let start = first / WINDOW_BYTES * WINDOW_BYTES;
    let end = start.saturating_add(SPAN_BYTES).min(size);
    let of_span = windows(end - start).map(|mut window| {
        window.start += start;
        window.end += start;
        window
    });
    Ok(of_span.collect())
}

/// Returns the ranges of a span that begins with the first of them, cut to the file.
fn ranges_from(ranges: &[HotRange], from: u64, size: u64) -> Vec<HotRange> {
    let first = ranges.partition_point(|range| range.start < from);
    let rest = ranges.get(first..).unwrap_or_default();
    let end = rest
        .first()
        .map_or(0, |range| range.start.saturating_add(SPAN_BYTES));
    let of_span = rest.iter().take_while(|range| range.start < end.min(size));
    let cut = of_span.map(|range| HotRange {
        end: range.end.min(size),
        ..*range
    });
    cut.collect()
}

/// Takes ranges out of a plan whose bytes on the device are not those of the file.
fn refuse_transformed(
    file: &File,
    span: Range<u64>,
    plan: &mut MovePlan,
    skipped: &mut Vec<Skipped>,
) -> io::Result<()> {
    extents(file, span, &mut |extent| {
        let why = match () {
            () if extent.is_encrypted() => MigrationError::Encrypted,
            () if extent.is_encoded() => MigrationError::Compressed,
            () => return,
        };
        let end = extent.offset.saturating_add(extent.len);
        refuse(extent.offset..end, why, plan, skipped);
    })
}

/// Takes the ranges out of a plan that an extent meets.
fn refuse(
    extent: Range<u64>,
    why: MigrationError,
    plan: &mut MovePlan,
    skipped: &mut Vec<Skipped>,
) {
    let ranges = &mut plan.ranges;
    // Both are ascending and disjoint, so the ranges that an extent meets are adjacent.
    let first = ranges.partition_point(|range| range.end <= extent.start);
    let behind = ranges.partition_point(|range| range.start < extent.end);
    let met: Vec<Range<u64>> = match first < behind {
        true => ranges.drain(first..behind).collect(),
        false => return,
    };
    let bytes = met.iter().map(|range| range.end - range.start).sum();
    plan.bytes = plan.bytes.saturating_sub(bytes);
    let ranges = met.len() as u64;
    Skipped { why, ranges, bytes }.sum_into(skipped);
}

#[cfg(test)]
mod tests;
