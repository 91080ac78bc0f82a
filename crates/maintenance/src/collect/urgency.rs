//! Limits of a run that a server begins by itself, by its urgency. The server's thread calls this.
//!
//! Invariant: forgotten snapshots keep their trash period however little space is free. Copies
//! leave the space that acknowledged writes still need.

use super::GcPolicy;
use crate::schedule::{CollectLimits, Urgency};
use store::{Discarded, Pool};
use volumes::Volumes;

/// Minimum gain that is worth a commit, bytes.
const GAIN_BYTES_MIN: u64 = 64 << 10;
/// Garbage that may stay if space is short, percent of all live bytes.
const UNUSED_PERCENT_URGENT: u64 = 1;
const HOUR_NS: i64 = 3600 * 1_000_000_000;

impl GcPolicy {
    /// Returns the policy of a run that a server begins by itself. Containers stay in the trash,
    /// for processes that read the pool, as long as free space allows. `copy_room` is from
    /// [`CollectLimits::copy_room`]; `ahead`: trash entries with future times that an earlier run
    /// has seen.
    pub fn of_server(urgency: Urgency, copy_room: Option<u64>, ahead: Option<Discarded>) -> Self {
        let usual = Self::default();
        Self {
            // For processes that read the pool by themselves.
            reader_period_ns: match urgency {
                Urgency::WhenIdle => usual.reader_period_ns,
                Urgency::Low => HOUR_NS,
                Urgency::Full => 0,
            },
            copy_bytes_max: copy_room.unwrap_or(u64::MAX),
            gain_bytes_min: GAIN_BYTES_MIN,
            // If space is short, collect almost all garbage.
            unused_percent_max: match urgency {
                Urgency::WhenIdle => usual.unused_percent_max,
                Urgency::Low | Urgency::Full => UNUSED_PERCENT_URGENT,
            },
            // A merge frees little space, late, and needs some first.
            merge_ratio_min: match urgency {
                Urgency::WhenIdle => usual.merge_ratio_min,
                Urgency::Low | Urgency::Full => 0,
            },
            // An order by owner frees nothing sooner.
            by_owner_percent_min: match urgency {
                Urgency::WhenIdle => usual.by_owner_percent_min,
                Urgency::Low | Urgency::Full => None,
            },
            ahead,
            ..usual
        }
    }
}

impl CollectLimits {
    /// Returns the bytes that a run may copy without taking the space of acknowledged writes;
    /// `None` if free space is unknown. On a full disk the reserve is for copies.
    pub fn copy_room(&self, pool: &Pool, volumes: &Volumes, urgency: Urgency) -> Option<u64> {
        let room = pool.room()?;
        let journal = volumes.journal_usage();
        let to_grow = journal.bytes_max.saturating_sub(journal.used_bytes);
        let floor = self.copy_floor_bytes(room, to_grow);
        let spare = room.free_bytes.saturating_sub(floor);
        match (urgency, pool.reserved()) {
            (Urgency::Full, Some(reserved)) => {
                let open = volumes.open_container_bytes();
                Some(spare.max(reserved.for_copies().saturating_sub(open)))
            }
            _ => Some(spare),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urgent_runs_take_more_and_keep_the_days_of_forgotten_snapshots() {
        let usual = GcPolicy::default();
        let of = |urgency| GcPolicy::of_server(urgency, Some(5), None);
        let idle = of(Urgency::WhenIdle);
        assert_eq!(idle.unused_percent_max, usual.unused_percent_max);
        assert_eq!(idle.merge_ratio_min, usual.merge_ratio_min);
        assert_eq!(idle.by_owner_percent_min, usual.by_owner_percent_min);
        for urgency in [Urgency::WhenIdle, Urgency::Low, Urgency::Full] {
            let policy = of(urgency);
            assert_eq!(policy.trash_period_ns, usual.trash_period_ns);
            assert_eq!(policy.copy_bytes_max, 5);
        }
        let (low, full) = (of(Urgency::Low), of(Urgency::Full));
        assert_eq!(idle.reader_period_ns, usual.reader_period_ns);
        assert!((1..idle.reader_period_ns).contains(&low.reader_period_ns));
        assert_eq!((full.reader_period_ns, full.merge_ratio_min), (0, 0));
        assert_eq!(full.by_owner_percent_min, None);
        assert!(full.unused_percent_max < usual.unused_percent_max);
        let unknown = GcPolicy::of_server(Urgency::Low, None, None);
        assert_eq!(unknown.copy_bytes_max, u64::MAX);
    }
}
