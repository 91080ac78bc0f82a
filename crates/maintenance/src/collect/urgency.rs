//! What a server's own run may do, by how urgent it is.
//!
//! Invariant: forgotten snapshots keep their days however little is free, and copies leave the room
//! that acknowledged writes still need. Called by the server's thread.

use super::GcPolicy;
use crate::upkeep::{CollectLimits, Urgency};
use store::{Discarded, Pool};
use volumes::Volumes;

/// Less than this is not worth a commit, bytes.
const GAIN_BYTES_MIN: u64 = 64 << 10;
/// Percent of what is needed that may stay unused in containers when little is free.
const UNUSED_PERCENT_URGENT: u64 = 1;
const SECOND_NS: i64 = 1_000_000_000;

impl GcPolicy {
    /// Of a run that a server begins by itself. Trashed containers stay for processes that read the
    /// pool as long as can be afforded. `copy_room` is from [`CollectLimits::copy_room`], `ahead`
    /// what an earlier run saw in the trash with a time in the future.
    pub fn of_server(urgency: Urgency, copy_room: Option<u64>, ahead: Option<Discarded>) -> Self {
        let usual = Self::default();
        let reader_s = i64::try_from(urgency.reader_period_s()).unwrap_or(i64::MAX);
        Self {
            reader_period_ns: reader_s.saturating_mul(SECOND_NS),
            copy_bytes_max: copy_room.unwrap_or(u64::MAX),
            gain_bytes_min: GAIN_BYTES_MIN,
            // Whoever needs room wants almost all that there is.
            unused_percent_max: match urgency {
                Urgency::WhenIdle => usual.unused_percent_max,
                Urgency::Low | Urgency::Full => UNUSED_PERCENT_URGENT,
            },
            // Merging small containers gives little room, late, and takes some first.
            merge_ratio_min: match urgency {
                Urgency::WhenIdle => usual.merge_ratio_min,
                Urgency::Low | Urgency::Full => 0,
            },
            ahead,
            ..usual
        }
    }
}

impl CollectLimits {
    /// Bytes that a run may copy now before it takes the room of acknowledged writes; `None`: nobody
    /// knows how much is free. On a full disk the reserve is for copies.
    pub fn copy_room(&self, pool: &Pool, volumes: &Volumes, urgency: Urgency) -> Option<u64> {
        let room = pool.room()?;
        let journal = volumes.journal_usage();
        let to_grow = journal.bytes_max.saturating_sub(journal.used_bytes);
        let floor = self.copy_floor_bytes(room, to_grow);
        let spare = room.free_bytes.saturating_sub(floor);
        match (urgency, pool.reserved()) {
            (Urgency::Full, Some(reserved)) => Some(spare.max(reserved.for_copies())),
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
        for urgency in [Urgency::WhenIdle, Urgency::Low, Urgency::Full] {
            let policy = of(urgency);
            assert_eq!(policy.trash_period_ns, usual.trash_period_ns);
            assert_eq!(policy.copy_bytes_max, 5);
            assert!(policy.reader_period_ns <= idle.reader_period_ns);
        }
        let full = of(Urgency::Full);
        assert_eq!((full.reader_period_ns, full.merge_ratio_min), (0, 0));
        assert!(full.unused_percent_max < usual.unused_percent_max);
        let unknown = GcPolicy::of_server(Urgency::Low, None, None);
        assert_eq!(unknown.copy_bytes_max, u64::MAX);
    }
}
