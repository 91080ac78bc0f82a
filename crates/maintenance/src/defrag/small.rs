//! Hot chunks that are read at random, and lie in regions that are large for that: which of them
//! are copied into small regions. The defragmenter calls this.
//!
//! Other owners are not asked. A scan finds the old copies as long as they exist, since it reads
//! their regions whole; later it needs one more read for many of them, since they lie in the
//! object's order (`lab/sim/tests/hot_chunks.rs`). The bound limits what it can lose.
//!
//! Invariant: no more is selected in a run than [`bytes_max`] says: a few percent of the objects.

use super::allowance::bytes_max;
use super::load::Item;
use super::report::add_fetches;
use super::{DefragOptions, DefragReport};
use fragpicker::SMALL_REGION_BYTES;
use std::ops::Range;
use store::{LaneOptions, Move, Places, Result};

/// Runs of regions that a move counts as. Nothing is in pieces; a smaller read is the gain.
const RUNS: u64 = 2;

/// Returns the packing of the copies.
pub fn lane(lane: LaneOptions) -> LaneOptions {
    LaneOptions {
        region_bytes: lane.region_bytes.min(SMALL_REGION_BYTES as usize),
        ..lane
    }
}

/// Returns the move for a range, if it has amplified chunks. Adds its present cost to the report.
pub fn examine(
    places: &Places<'_>,
    item: &Item,
    options: &DefragOptions,
    report: &mut DefragReport,
) -> Result<Option<Move>> {
    let fetches = places.fetches(item.object, item.range.start..item.range.end)?;
    let mut parts: Vec<Range<u64>> = Vec::new();
    let (mut now, mut then) = (0, 0);
    for (offset, len, fetch) in &fetches {
        now += fetch.stored_bytes;
        if !fetch.is_amplified() {
            then += fetch.stored_bytes;
            continue;
        }
        then += fetch.small_bytes();
        match parts.last_mut() {
            Some(last) if last.end == *offset => last.end += len,
            _ => parts.push(*offset..offset + len),
        }
    }
    let one = Move {
        object: item.object,
        parts,
        weight: item.range.weight,
        runs: RUNS,
        hurts: 0,
        is_small: true,
    };
    let bytes_max = bytes_max(report);
    let small = &mut report.counts.small;
    let is_amplified = !one.parts.is_empty();
    let is_over = small.wanted_bytes + one.bytes() > bytes_max;
    let is_moved = is_amplified && !is_over;
    small.amplified += u64::from(is_amplified);
    small.over += u64::from(is_amplified && is_over);
    small.wanted_bytes += if is_moved { one.bytes() } else { 0 };
    let count = fetches.len() as u64;
    add_fetches(&mut small.before, one.weight, now, count);
    if options.dry_run {
        let then = if is_moved { then } else { now };
        add_fetches(&mut small.after, one.weight, then, count);
    }
    Ok(is_moved.then_some(one))
}

/// Adds the cost of a range to the cost after the run.
pub fn measure(places: &Places<'_>, item: &Item, report: &mut DefragReport) -> Result<()> {
    let fetches = places.fetches(item.object, item.range.start..item.range.end)?;
    let bytes = fetches.iter().map(|(_, _, fetch)| fetch.stored_bytes).sum();
    let (weight, count) = (item.range.weight, fetches.len() as u64);
    add_fetches(&mut report.counts.small.after, weight, bytes, count);
    Ok(())
}

/// Returns true if no chunk of these ranges lies in a region that is large for it.
pub fn is_done(places: &Places<'_>, object: u64, parts: &[Range<u64>]) -> Result<bool> {
    for part in parts {
        let fetches = places.fetches(object, part.clone())?;
        if fetches.iter().any(|(_, _, fetch)| fetch.is_amplified()) {
            return Ok(false);
        }
    }
    Ok(true)
}
