//! Decides which parts of a range are worth moving. The defragmenter calls this.
//!
//! Invariant: nothing is changed; the effect on other owners is judged later.

use super::load::Item;
use super::report::add;
use super::{DefragOptions, DefragReport, small};
use fragpicker::{HotRange, PlanOptions, SPARSE_BYTES, plan, sparse};
use std::ops::Range;
use store::{Move, Places, Result};

/// Returns the bytes of the object to examine for a range. The length of runs that cross a
/// segment's borders is seen only beyond these.
pub fn around(item: &Item) -> Range<u64> {
    let beyond = if item.is_segment { SPARSE_BYTES } else { 0 };
    let HotRange { start, end, .. } = item.range;
    start.saturating_sub(beyond)..end.saturating_add(beyond)
}

/// Returns the move for a range, if any. Adds the range's present cost to the report.
pub fn examine(
    places: &Places<'_>,
    item: &Item,
    options: &DefragOptions,
    report: &mut DefragReport,
) -> Result<Option<Move>> {
    if item.is_small {
        return small::examine(places, item, options, report);
    }
    let range = item.range.start..item.range.end;
    let (parts, runs, cost) = if item.is_segment && !options.rewrites_all {
        let found = sparse(&places.spots(item.object, around(item))?, &range);
        let cost = places.cost(item.object, range.clone())?;
        (found.parts, found.runs, cost)
    } else {
        // Other owners are judged for all moves at once.
        let moves_shared = PlanOptions { moves_shared: true };
        let ranges = std::slice::from_ref(&item.range);
        let planned = plan(places, item.object, ranges, moves_shared)?;
        let cost = places.cost_of_last();
        (planned.ranges, cost.runs, cost)
    };
    add(&mut report.before, item.range.weight, &cost);
    if options.dry_run {
        add(&mut report.after, item.range.weight, &cost);
    }
    report.counts.fragmented += u64::from(!parts.is_empty());
    report.counts.hot += u64::from(item.is_hot);
    let parts = match options.rewrites_all {
        true if cost.bytes > 0 => vec![range.clone()],
        false if item.is_hot => parts,
        _ => Vec::new(),
    };
    Ok((!parts.is_empty()).then_some(Move {
        object: item.object,
        parts,
        weight: item.range.weight,
        runs,
        hurts: 0,
        is_small: false,
    }))
}
