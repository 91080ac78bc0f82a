//! Ranges that are to be read again: blocks or records, whatever their owner counts. `xfs` and
//! `ntfs` note writes here.
//!
//! Invariant: bounded. Where too many ranges would be kept, neighbours become one, with what lies
//! between them: more is read again, nothing is missed.

use super::budget::tree_bytes;
use std::collections::BTreeMap;
use std::ops::Range;

/// Most ranges.
const RANGES_MAX: usize = 512;

/// See the module.
#[derive(Default)]
pub struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds a range.
    pub fn insert(&mut self, new: Range<u64>) {
        if new.start >= new.end {
            return;
        }
        let (mut start, mut end) = (new.start, new.end);
        // Those that touch it become a part of it.
        while let Some((&from, &to)) = self.0.range(..=end).next_back()
            && to >= start
        {
            (start, end) = (start.min(from), end.max(to));
            self.0.remove(&from);
        }
        self.0.insert(start, end);
        if self.0.len() > RANGES_MAX {
            self.halve();
        }
    }

    /// Joins each range with the next one.
    fn halve(&mut self) {
        let all: Vec<(u64, u64)> = std::mem::take(&mut self.0).into_iter().collect();
        let pairs = all.chunks(2).filter_map(|pair| {
            let ((start, _), (_, end)) = (pair.first()?, pair.last()?);
            Some((*start, *end))
        });
        self.0 = pairs.collect();
    }

    /// The first range.
    pub fn first(&self) -> Option<Range<u64>> {
        self.0.first_key_value().map(|(start, end)| *start..*end)
    }

    /// Removes what lies before `until`.
    pub fn done(&mut self, until: u64) {
        while let Some(first) = self.first().filter(|first| first.start < until) {
            self.0.remove(&first.start);
            if first.end > until {
                self.0.insert(until, first.end);
            }
        }
    }

    /// Memory that this uses, bytes.
    pub fn memory_bytes(&self) -> usize {
        tree_bytes(self.0.len(), 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_and_are_bounded_and_miss_nothing() {
        let mut ranges = Ranges::default();
        ranges.insert(10..20);
        ranges.insert(30..40);
        ranges.insert(20..30);
        assert_eq!(ranges.first(), Some(10..40));
        ranges.done(15);
        assert_eq!(ranges.first(), Some(15..40));
        ranges.done(u64::MAX);
        assert_eq!(ranges.first(), None);
        for n in 0..10_000 {
            ranges.insert(n * 10..n * 10 + 1);
        }
        assert!(ranges.0.len() <= RANGES_MAX);
        for n in 0..10_000 {
            let first = ranges.first().expect("not all were taken");
            assert!(first.contains(&(n * 10)), "{n}");
            ranges.done(n * 10 + 1);
        }
    }
}
