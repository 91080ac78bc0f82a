//! Estimates a pool's growth from samples of its size: about one a day, for four weeks. The gc
//! memory calls this.
//!
//! Invariant: one import is no trend, and one gc run ends none: the intervals of fastest and
//! slowest growth are left out. Events that recur (a daily backup, a weekly gc run) count. Fewer
//! than three intervals give no estimate.

use format::collect::{SAMPLES, SizeSample};
use units::UnixNanos;

const HOUR_S: u64 = 3600;
const DAY_S: u64 = 24 * HOUR_S;
/// Minimum distance of samples: a writer that runs daily at about the same time makes one a day.
const APART_S: u64 = 20 * HOUR_S;
/// The time since the newest sample counts as an interval from this length on.
const LAST_S: u64 = 12 * HOUR_S;
/// Older samples do not count.
const WINDOW_S: u64 = 35 * DAY_S;
const INTERVALS_MIN: usize = 3;

/// Growth in an interval between two samples.
#[derive(Clone, Copy)]
struct Growth {
    seconds: u64,
    /// Negative if gc freed more than was stored.
    bytes: i128,
}

/// Adds a sample if one is due, in place of the oldest; returns true if so. Drops samples with
/// future times, which came from a wrong clock.
pub(super) fn sample(
    samples: &mut [SizeSample; SAMPLES],
    now: UnixNanos,
    stored_bytes: u64,
) -> bool {
    let mut kept: Vec<_> = taken(samples).filter(|sample| sample.at <= now).collect();
    let is_due = |newest: &SizeSample| seconds(newest.at, now) >= APART_S;
    if now <= UnixNanos(0) || !kept.last().is_none_or(is_due) {
        return false;
    }
    kept.push(SizeSample {
        at: now,
        stored_bytes,
    });
    let kept = kept.iter().skip(kept.len().saturating_sub(SAMPLES));
    *samples = Default::default();
    samples
        .iter_mut()
        .zip(kept)
        .for_each(|(to, from)| *to = *from);
    true
}

/// Returns the growth, bytes a day; `None` if it is unknown or not positive. See the module's head.
pub(super) fn per_day(
    samples: &[SizeSample; SAMPLES],
    now: UnixNanos,
    stored_bytes: u64,
) -> Option<u64> {
    let mut points: Vec<_> = taken(samples)
        .filter(|sample| sample.at <= now && seconds(sample.at, now) <= WINDOW_S)
        .collect();
    let last_s = points.last().map_or(0, |newest| seconds(newest.at, now));
    if last_s >= LAST_S {
        points.push(SizeSample {
            at: now,
            stored_bytes,
        });
    }
    let growths = points.windows(2).filter_map(|pair| match pair {
        [before, after] => Some(Growth {
            seconds: seconds(before.at, after.at).max(1),
            bytes: i128::from(after.stored_bytes) - i128::from(before.stored_bytes),
        }),
        _ => None,
    });
    let mut growths: Vec<Growth> = growths.collect();
    if growths.len() < INTERVALS_MIN {
        return None;
    }
    growths.sort_by_key(|growth| growth.bytes * i128::from(DAY_S) / i128::from(growth.seconds));
    // Without the least and the most.
    let usual = growths.iter().skip(1).take(growths.len() - 2);
    let bytes: i128 = usual.clone().map(|growth| growth.bytes).sum();
    let seconds: u64 = usual.map(|growth| growth.seconds).sum();
    let daily = bytes * i128::from(DAY_S) / i128::from(seconds.max(1));
    u64::try_from(daily).ok().filter(|daily| *daily > 0)
}

fn taken(samples: &[SizeSample; SAMPLES]) -> impl Iterator<Item = SizeSample> {
    samples
        .iter()
        .copied()
        .take_while(|sample| sample.at != UnixNanos(0))
}

fn seconds(from: UnixNanos, to: UnixNanos) -> u64 {
    u64::try_from(to.0.saturating_sub(from.0) / 1_000_000_000).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: i64 = 1 << 30;

    fn at(day: f64) -> UnixNanos {
        UnixNanos(((1000.0 + day) * DAY_S as f64) as i64 * 1_000_000_000)
    }

    /// Growth in GiB a day of a pool of 1000 GiB with these daily changes, shortly after the last
    /// day.
    fn trend(days: &[i64]) -> Option<i64> {
        let (mut samples, mut stored) = ([SizeSample::default(); SAMPLES], 1000 * GIB);
        assert!(sample(&mut samples, at(0.0), stored as u64));
        for (day, change) in (1..).zip(days) {
            stored += change * GIB;
            assert!(sample(&mut samples, at(f64::from(day)), stored as u64));
        }
        let now = at(days.len() as f64 + 0.1);
        per_day(&samples, now, stored as u64).map(|bytes| bytes as i64 / GIB)
    }

    #[test]
    fn steady_growth_is_a_trend_after_three_days() {
        assert_eq!(trend(&[]), None);
        assert_eq!(trend(&[10, 10]), None);
        assert_eq!(trend(&[10, 10, 10]), Some(10));
        assert_eq!(trend(&[10; 60]), Some(10));
        assert_eq!(trend(&[0; 20]), None);
        assert_eq!(trend(&[-3; 20]), None);
    }

    #[test]
    fn one_import_is_no_trend() {
        assert_eq!(trend(&[0, 0, 500, 0, 0]), None);
        assert_eq!(trend(&[500, 0, 0]), None);
        assert_eq!(trend(&[0, 0, 500]), None);
        assert_eq!(trend(&[2, 2, 2, 500, 2, 2, 2]), Some(2));
    }

    #[test]
    fn one_collection_ends_no_trend() {
        assert_eq!(trend(&[10, 10, 10, -400, 10, 10]), Some(10));
        assert_eq!(trend(&[10, 10, 10, -400]), Some(10));
        // Neither make nor end a trend together.
        assert_eq!(trend(&[10, 500, 10, -400, 10, 10]), Some(10));
        assert_eq!(trend(&[0, 500, 0, -400, 0, 0]), None);
    }

    #[test]
    fn collections_that_come_again_count() {
        // Ten a day, and sixty a week freed: ten a week, or a little more.
        let weeks: Vec<i64> = [10, 10, 10, 10, 10, 10, -50].repeat(4);
        let found = trend(&weeks).expect("it grows");
        assert!((1..=4).contains(&found), "{found}");
        let weeks: Vec<i64> = [10, 10, 10, 10, 10, 10, -60].repeat(4);
        assert!(trend(&weeks).is_none_or(|found| found <= 2));
    }

    #[test]
    fn samples_are_a_day_apart_and_of_times_that_were() {
        let mut samples = [SizeSample::default(); SAMPLES];
        assert!(sample(&mut samples, at(0.0), 1));
        assert!(!sample(&mut samples, at(0.5), 2));
        assert!(sample(&mut samples, at(0.9), 3));
        // A clock that was ahead is corrected.
        assert!(sample(&mut samples, at(50.0), 4));
        assert!(sample(&mut samples, at(2.0), 5));
        let kept: Vec<_> = taken(&samples).map(|sample| sample.stored_bytes).collect();
        assert_eq!(kept, [1, 3, 5]);
        // Old samples say nothing about now.
        assert_eq!(per_day(&samples, at(90.0), 9), None);
        // Growth since the last sample counts after half a day.
        assert_eq!(per_day(&samples, at(2.4), u64::MAX), None);
        assert!(per_day(&samples, at(2.6), u64::MAX).is_some());
    }
}
