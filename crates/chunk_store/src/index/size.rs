//! Chooses the size of the index file. Merges and the creation of a file call this.
//!
//! Invariant: pure arithmetic. The result is never smaller than the given geometry.

use format::index::Geometry;

/// The file grows if buckets are on average fuller than this. At 70 % of 340 entries a full bucket
/// is 6.6 standard deviations away.
const LOAD_MAX_PERCENT: u64 = 70;
/// The file also grows if more than one entry in this many is in the overflow table, provided that
/// buckets are at least half of `LOAD_MAX_PERCENT` full.
const OVERFLOW_SHARE: u64 = 64;

/// Returns the smallest geometry, grown from `geometry`, that this many entries do not overfill. It
/// is doubled at least once if too many entries are in the overflow table.
pub(super) fn size_for(geometry: Geometry, entries: u64, overflow: u64) -> Geometry {
    let above = |geometry: Geometry, percent: u64| {
        entries.saturating_mul(100) > geometry.capacity().saturating_mul(percent)
    };
    let is_full =
        overflow.saturating_mul(OVERFLOW_SHARE) > entries && above(geometry, LOAD_MAX_PERCENT / 2);
    let mut wanted = match is_full {
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
