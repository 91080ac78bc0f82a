//! Remembers announced reads whose bytes the system's cache did not have: the device gives them,
//! although the cache has them when the read comes. Local files call this.
//!
//! Invariant: a range is here only if none of its pages was cached when the device was asked. Each
//! byte of it counts for one read.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::ops::Range;

/// Maximum number of ranges of a file. The oldest are forgotten, and their reads count as cached.
const RANGES_MAX: usize = 64;

/// Announced ranges, in their order.
#[derive(Default)]
pub(super) struct Announced(Mutex<VecDeque<Range<u64>>>);

impl Announced {
    /// Remembers a range.
    pub fn insert(&self, offset: u64, len: u64) {
        push(&mut self.0.lock(), offset..offset.saturating_add(len));
    }

    /// Returns true if all bytes of a read lie in one announced range, and forgets these bytes.
    pub fn take(&self, offset: u64, len: u64) -> bool {
        let end = offset.saturating_add(len);
        let mut ranges = self.0.lock();
        let has_it = |range: &Range<u64>| range.start <= offset && end <= range.end;
        let found = ranges.iter().position(has_it);
        let Some(range) = found.and_then(|at| ranges.remove(at)) else {
            return false;
        };
        push(&mut ranges, range.start..offset);
        push(&mut ranges, end..range.end);
        true
    }
}

fn push(ranges: &mut VecDeque<Range<u64>>, range: Range<u64>) {
    if range.is_empty() {
        return;
    }
    if ranges.len() >= RANGES_MAX {
        ranges.pop_front();
    }
    ranges.push_back(range);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_counts_once_and_the_oldest_ranges_go() {
        let announced = Announced::default();
        (0..=RANGES_MAX as u64).for_each(|n| announced.insert(n * 100, 10));
        assert!(!announced.take(0, 10), "too many");
        assert!(!announced.take(100, 11), "more than was announced");
        assert!(announced.take(100, 10));
        assert!(!announced.take(100, 10));
        assert_eq!(announced.0.lock().len(), RANGES_MAX - 1);
        assert!(announced.take(203, 4), "a part");
        assert!(!announced.take(202, 2), "not again");
        assert!(announced.take(200, 3) && announced.take(207, 3), "the rest");
        assert_eq!(announced.0.lock().len(), RANGES_MAX - 2);
    }
}
