//! Room on the pool's disk: little is left, or none will be within days.
//!
//! The trend is the pool's growth since the last collection that came to its end, which remembers how much was
//! stored then. With no such memory, or less than a day of it, nothing is said: two backups are no trend. What
//! the next collection will give back is not known and not counted.

use super::{Finding, Look, Severity};
use crate::sizes;
use maintenance::CollectMemory;

const DAY_S: u64 = 86_400;
/// A disk that fills within so many days is told.
const DAYS: u64 = 7;
/// Nearly full: less than this share is free, percent, and less than so much.
const FREE_PERCENT: u64 = 5;
const FREE_BYTES: u64 = 4 << 30;

pub(super) fn find(look: &Look<'_>) -> Vec<Finding> {
    let Some(room) = look.pool.room() else {
        return Vec::new();
    };
    let (free, total) = (room.free_bytes, room.total_bytes);
    let text = if is_nearly_full(free, total) {
        let (free, total) = (sizes::display(free), sizes::display(total));
        format!("only {free} of {total} are free on the pool's disk")
    } else if let Some((days, grown)) = fills(look, free) {
        let (free, grown) = (sizes::display(free), sizes::display(grown));
        format!(
            "the pool's disk fills in about {days} days: {free} are free, and the pool grew by {grown} since the last \
             collection"
        )
    } else {
        return Vec::new();
    };
    vec![Finding {
        severity: Severity::Attention,
        kind: "disk_fills",
        object: String::new(),
        text,
        action: "run quintet gc; forget snapshots that nobody needs (quintet forget), or make the disk larger"
            .to_owned(),
    }]
}

fn is_nearly_full(free: u64, total: u64) -> bool {
    free < FREE_BYTES.min(total / 100 * FREE_PERCENT)
}

/// Days until it is full, and the bytes that it grew by.
fn fills(look: &Look<'_>, free: u64) -> Option<(u64, u64)> {
    let last = CollectMemory::of(look.pool)
        .last()
        .filter(|last| last.is_complete)?;
    let grown = look
        .pool
        .record()
        .stored_bytes
        .checked_sub(last.stored_bytes)?;
    let elapsed_ns = look.now.0.saturating_sub(last.at.0);
    let elapsed_s = u64::try_from(elapsed_ns / 1_000_000_000).ok()?;
    Some((days_left(free, grown, elapsed_s)?, grown))
}

fn days_left(free: u64, grown: u64, elapsed_s: u64) -> Option<u64> {
    if elapsed_s < DAY_S || grown == 0 {
        return None;
    }
    let left_s = u128::from(free) * u128::from(elapsed_s) / u128::from(grown);
    let days = u64::try_from(left_s / u128::from(DAY_S)).ok()?;
    (days < DAYS).then_some(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trend_needs_a_day() {
        // A tenth of what is free in two days.
        assert_eq!(days_left(1000, 100, 2 * DAY_S), None);
        assert_eq!(days_left(1000, 500, 2 * DAY_S), Some(4));
        assert_eq!(days_left(0, 1, DAY_S), Some(0));
        assert_eq!(days_left(1000, 500, DAY_S - 1), None);
        assert_eq!(days_left(1000, 0, 9 * DAY_S), None);
        assert_eq!(days_left(u64::MAX, 1, u64::MAX), None);
    }

    #[test]
    fn nearly_full() {
        assert!(is_nearly_full(4 << 20, 96 << 20));
        assert!(!is_nearly_full(5 << 20, 96 << 20));
        assert!(!is_nearly_full(5 << 30, 1 << 40));
        assert!(is_nearly_full(3 << 30, 1 << 40));
    }
}
