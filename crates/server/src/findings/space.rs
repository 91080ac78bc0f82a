//! Finds that the pool's disk is nearly full, will be full within days, has few free inodes, or is
//! mounted read-only. [`super::SOURCES`] lists it.
//!
//! The growth is that of one sample of the pool's size a day over weeks, without the effect of a
//! single import or gc run (`maintenance::CollectMemory::growth_per_day`). With samples of fewer
//! than three days, no growth is known.
//!
//! Invariant: at most one finding of each kind.

use super::{Finding, FindingsInput, Severity};
use maintenance::CollectMemory;
use media::Room;
use terminal::sizes;

/// A disk that fills within this many days is reported.
const DAYS: u64 = 7;
/// A disk is nearly full if less than this percentage and less than [`FREE_BYTES`] is free.
const FREE_PERCENT: u64 = 5;
const FREE_BYTES: u64 = 4 << 30;
/// The same for inodes: a container, a root or a damage record takes one.
const INODES_FREE: u64 = 1000;

pub(super) fn find(look: &FindingsInput<'_>) -> Vec<Finding> {
    let Some(room) = look.pool.room() else {
        return Vec::new();
    };
    fills_up(look, room)
        .into_iter()
        .chain(medium(room))
        .collect()
}

/// Returns what the file system lacks beside space.
fn medium(room: Room) -> Vec<Finding> {
    let finding = |kind, text: String, action: &str| Finding {
        severity: Severity::Attention,
        kind,
        object: String::new(),
        text,
        action: action.to_owned(),
    };
    let (free, total) = (room.free_inodes, room.total_inodes);
    let mut found = Vec::new();
    if room.is_read_only {
        found.push(finding(
            "disk_read_only",
            "the pool's file system is mounted read-only: nothing can be stored".to_owned(),
            "if that is not intended, see the kernel's log (dmesg) for errors of the disk, then mount it writable",
        ));
    }
    if total > 0 && free < INODES_FREE.min(total / 100 * FREE_PERCENT) {
        found.push(finding(
            "inodes_run_out",
            format!("the pool's file system has few free inodes: {free} of {total}"),
            "delete files that do not belong to the pool, or move the pool to a file system with more inodes; quintet gc \
             merges small containers",
        ));
    }
    found
}

/// Returns the finding that the disk is nearly full, or soon will be.
fn fills_up(look: &FindingsInput<'_>, room: Room) -> Option<Finding> {
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
        return None;
    };
    Some(Finding {
        severity: Severity::Attention,
        kind: "disk_fills",
        object: String::new(),
        text,
        action: "run quintet gc, forget snapshots that you do not need (quintet forget), or enlarge the disk"
            .to_owned(),
    })
}

fn is_nearly_full(free: u64, total: u64) -> bool {
    free < FREE_BYTES.min(total / 100 * FREE_PERCENT)
}

/// Returns the number of days until the disk is full, and the daily growth in bytes.
fn fills(look: &FindingsInput<'_>, free: u64) -> Option<(u64, u64)> {
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
    fn few_inodes_and_a_read_only_mount_are_findings() {
        let kinds = |free_inodes, total_inodes, is_read_only| -> Vec<_> {
            let room = Room {
                free_inodes,
                total_inodes,
                is_read_only,
                ..Room::default()
            };
            medium(room).iter().map(|found| found.kind).collect()
        };
        assert_eq!(kinds(0, 0, false), [""; 0], "btrfs has no such limit");
        assert_eq!(kinds(500_000, 1_000_000, false), [""; 0]);
        assert_eq!(kinds(0, 1_000_000, false), ["inodes_run_out"]);
        assert_eq!(kinds(20, 1000, true), ["disk_read_only", "inodes_run_out"]);
    }

    #[test]
    fn nearly_full() {
        assert!(is_nearly_full(4 << 20, 96 << 20));
        assert!(!is_nearly_full(5 << 20, 96 << 20));
        assert!(!is_nearly_full(5 << 30, 1 << 40));
        assert!(is_nearly_full(3 << 30, 1 << 40));
    }
}
