//! Plans what of a file is worth moving when no requests were traced: FragPicker's bypass, in
//! spans. The program calls this for `quintet host defrag`.
//!
//! Invariant: nothing is written. Time and memory do not depend on holes.

use crate::defragment::Skipped;
use crate::extents::{FileLayout, extents, first_data};
use crate::migrate::MigrationError;
use fragpicker::{Plan, PlanOptions, WINDOW_BYTES, plan, windows};
use std::fs::File;
use std::io;
use std::ops::Range;

/// Bytes that are planned at once.
const SPAN_BYTES: u64 = 64 << 20;

/// A plan for a span of a file.
#[derive(Debug)]
pub struct SpanPlan {
    /// Where the span ends; the next one begins there.
    pub end: u64,
    /// Windows to move.
    pub plan: Plan,
    /// Windows left alone.
    pub skipped: Vec<Skipped>,
}

/// Plans the first span at or behind `from` that has data: each window of 128 KiB that contains a
/// break. Returns none at the end of the file.
pub fn plan_span(file: &File, from: u64, moves_shared: bool) -> io::Result<Option<SpanPlan>> {
    let size = file.metadata()?.len();
    let Some(first) = first_data(file, from..size)? else {
        return Ok(None);
    };
    let start = first / WINDOW_BYTES * WINDOW_BYTES;
    let end = start.saturating_add(SPAN_BYTES).min(size);
    let of_span: Vec<_> = windows(end - start)
        .map(|mut window| {
            window.start += start;
            window.end += start;
            window
        })
        .collect();
    let layout = FileLayout::of(file)?;
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
    Ok(Some(SpanPlan { end, plan, skipped }))
}

/// Takes windows out of a plan whose bytes on the device are not those of the file.
fn refuse_transformed(
    file: &File,
    span: Range<u64>,
    plan: &mut Plan,
    skipped: &mut Vec<Skipped>,
) -> io::Result<()> {
    let ranges = &mut plan.ranges;
    extents(file, span, &mut |extent| {
        let why = match () {
            () if extent.is_encrypted() => MigrationError::Encrypted,
            () if extent.is_encoded() => MigrationError::Compressed,
            () => return,
        };
        let end = extent.offset.saturating_add(extent.len);
        // Both are ascending and disjoint, so the ranges that an extent meets are adjacent.
        let first = ranges.partition_point(|range| range.end <= extent.offset);
        let behind = ranges.partition_point(|range| range.start < end);
        let met: Vec<Range<u64>> = match first < behind {
            true => ranges.drain(first..behind).collect(),
            false => return,
        };
        let bytes = met.iter().map(|range| range.end - range.start).sum();
        plan.bytes = plan.bytes.saturating_sub(bytes);
        let ranges = met.len() as u64;
        Skipped { why, ranges, bytes }.sum_into(skipped);
    })
}
