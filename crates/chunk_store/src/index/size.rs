//! How large the index file should be.
//!
//! Invariant: pure arithmetic; never smaller than it was. Called by merges, and when a file is made.

use format::index::Geometry;

/// Grow when the average bucket is fuller than this. At 70 % of 340 a full bucket is 6.6 standard
/// deviations away.
const LOAD_MAX_PERCENT: u64 = 70;
/// Grow when one entry in so many is in the overflow table, if buckets are at least half of
/// `LOAD_MAX_PERCENT` full.
const OVERFLOW_SHARE: u64 = 64;

/// The smallest geometry, grown from this one, that holds so many entries well.
pub(super) fn size_for(geometry: Geometry, entries: u64, overflow: u64) -> Geometry {
    let above = |geometry: Geometry, percent: u64| {
        entries.saturating_mul(100) > geometry.capacity().saturating_mul(percent)
    };
    let crowded =
        overflow.saturating_mul(OVERFLOW_SHARE) > entries && above(geometry, LOAD_MAX_PERCENT / 2);
    let mut wanted = match crowded {
        true => geometry.doubled().unwrap_or(geometry),
        false => geometry,
    };
    while above(wanted, LOAD_MAX_PERCENT) {
        match wanted.doubled() {
            Some(doubled) => wanted = doubled,
            None => break,
        }
    }
    wanted
}
