//! Selects the hot ranges of an object. The trace and the planner call this.
//!
//! Invariant: resulting ranges are ascending and do not overlap.

/// A range of an object and the number of requests for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HotRange {
    /// First byte.
    pub start: u64,
    /// First byte after it.
    pub end: u64,
    /// Number of requests, [`REQUEST_WEIGHT`](crate::REQUEST_WEIGHT) for each recent one.
    pub weight: u64,
}

/// Joins ranges that overlap, directly or through others, and adds up their weights.
///
/// The ranges must come by ascending starts. Ranges that only touch stay apart.
pub(crate) fn merge(ranges: impl Iterator<Item = HotRange>) -> Vec<HotRange> {
    let mut merged: Vec<HotRange> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start < last.end => {
                last.end = last.end.max(range.end);
                last.weight = last.weight.saturating_add(range.weight);
            }
            _ => merged.push(range),
        }
    }
    merged
}

/// Returns `percent` out of a hundred of the ranges (rounded up), by ascending starts.
///
/// It takes those with the most requests, and among equals the first.
pub fn hottest(mut ranges: Vec<HotRange>, percent: u8) -> Vec<HotRange> {
    let percent = usize::from(percent.min(100));
    let kept = ranges.len().saturating_mul(percent).div_ceil(100);
    ranges.sort_by_key(|r| (std::cmp::Reverse(r.weight), r.start));
    ranges.truncate(kept);
    ranges.sort_by_key(|r| r.start);
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64, weight: u64) -> HotRange {
        HotRange { start, end, weight }
    }

    #[test]
    fn the_hottest_are_kept_in_their_order() {
        let all = vec![
            range(0, 1, 5),
            range(1, 2, 9),
            range(4, 5, 5),
            range(6, 7, 7),
        ];
        assert_eq!(hottest(all.clone(), 100), all);
        let half = [range(1, 2, 9), range(6, 7, 7)];
        assert_eq!(hottest(all.clone(), 50), half);
        let three = [range(0, 1, 5), range(1, 2, 9), range(6, 7, 7)];
        assert_eq!(hottest(all.clone(), 51), three);
        assert_eq!(hottest(all.clone(), 1).len(), 1);
        assert!(hottest(all, 0).is_empty());
        assert!(hottest(Vec::new(), 50).is_empty());
    }

    #[test]
    fn what_touches_stays_apart_and_what_overlaps_is_joined() {
        let ranges = [
            range(0, 4, 1),
            range(4, 8, 2),
            range(4, 6, 3),
            range(7, 9, 4),
            range(20, 21, 5),
        ];
        let merged = merge(ranges.into_iter());
        assert_eq!(merged, [range(0, 4, 1), range(4, 9, 9), range(20, 21, 5)]);
    }
}
