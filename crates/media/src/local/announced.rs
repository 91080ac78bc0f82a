//! Remembers announced reads whose bytes the system's cache did not have: the device gives them,
//! although the cache has them when the read comes. Local files call this.
//!
//! Invariant: a range is here only if none of its pages was cached when the device was asked. It
//! counts for one read.

use parking_lot::Mutex;
use std::collections::VecDeque;

/// Maximum number of ranges of a file. The oldest are forgotten, and their reads count as cached.
const RANGES_MAX: usize = 64;

/// Offsets and lengths of announced reads, in their order.
#[derive(Default)]
pub(super) struct Announced(Mutex<VecDeque<(u64, u64)>>);

impl Announced {
    /// Remembers a read.
    pub fn insert(&self, offset: u64, len: u64) {
        let mut ranges = self.0.lock();
        if ranges.len() >= RANGES_MAX {
            ranges.pop_front();
        }
        ranges.push_back((offset, len));
    }

    /// Returns true if the read was announced, and forgets it.
    pub fn take(&self, offset: u64, len: u64) -> bool {
        let mut ranges = self.0.lock();
        let found = ranges.iter().position(|range| *range == (offset, len));
        found.and_then(|at| ranges.remove(at)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_counts_once_and_the_oldest_go() {
        let announced = Announced::default();
        (0..=RANGES_MAX as u64).for_each(|n| announced.insert(n, 10));
        assert!(!announced.take(0, 10), "too many");
        assert!(!announced.take(1, 9), "another length");
        assert!(announced.take(1, 10));
        assert!(!announced.take(1, 10));
        assert_eq!(announced.0.lock().len(), RANGES_MAX - 1);
    }
}
