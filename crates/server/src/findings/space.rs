//! Finds that the pool's disk is nearly full, or will be full within days. [`super::SOURCES`] lists
//! it.
//!
//! The growth is that of one sample of the pool's size a day over weeks, without the effect of a
//! single import or gc run (`maintenance::CollectMemory::growth_per_day`). With samples of fewer
//! than three days, no growth is known.
//!
//! Invariant: at most one finding.

use super::{Finding, Look, Severity};
use maintenance::CollectMemory;
use terminal::sizes;

/// A disk that fills within this many days is reported.
const DAYS: u64 = 7;
/// A disk is nearly full if less than this percentage and less than [`FREE_BYTES`] is free.
const FREE_PERCENT: u64 = 5;
const FREE_BYTES: u64 = 4 << 30;

pub(super) fn find(look: &Look<'_>) -> Vec<Finding> {
    let Some(room) = look.pool.room() else {
        return Vec::new();
    };
    let (free, total) = (room.free_bytes, room.total_bytes);
    let text = if is_nearly_full(free, total) {
        let (free, total) = (sizes::display(free), sizes::display(total));
        format!("the pool's disk is nearly full: {free} of {total} are free")
    } else if let Some((days, daily)) = fills(look, free) {
        let (free, daily) = (sizes::display(free), sizes::display(daily));
        format!(
            "the pool's disk will be full in about {}: {free} are free, and the pool grows by {daily} a day",
            units::count(days, "day")
        )
    } else {
        return Vec::new();
    };
    vec![Finding {
        severity: Severity::Attention,
        kind: "disk_fills",
        object: String::new(),
        text,
        action: "run quintet gc, forget snapshots that you do not need (quintet forget), or enlarge the disk"
            .to_owned(),
    }]
}

fn is_nearly_full(free: u64, total: u64) -> bool {
    free < FREE_BYTES.min(total / 100 * FREE_PERCENT)
}

/// Returns the number of days until the disk is full, and the daily growth in bytes.
fn fills(look: &Look<'_>, free: u64) -> Option<(u64, u64)> {
    let stored_bytes = look.pool.record().stored_bytes;
    let daily = CollectMemory::of(look.pool).growth_per_day(look.now, stored_bytes)?;
    Some((days_left(free, daily)?, daily))
}

fn days_left(free: u64, daily: u64) -> Option<u64> {
    let days = free.checked_div(daily)?;
    (days < DAYS).then_some(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days() {
        assert_eq!(days_left(1000, 100), None);
        assert_eq!(days_left(1000, 250), Some(4));
        assert_eq!(days_left(0, 1), Some(0));
        assert_eq!(days_left(1000, 0), None);
        assert_eq!(days_left(u64::MAX, 1), None);
    }

    #[test]
    fn nearly_full() {
        assert!(is_nearly_full(4 << 20, 96 << 20));
        assert!(!is_nearly_full(5 << 20, 96 << 20));
        assert!(!is_nearly_full(5 << 30, 1 << 40));
        assert!(is_nearly_full(3 << 30, 1 << 40));
    }
}
