//! Sets of byte ranges of a file, and the ranges in which bytes differ. `compare` and `scrub` call
//! this.
//!
//! Invariant: a set is ascending and disjoint, and has at most [`RANGES_MAX`] ranges: the last one
//! takes in what does not fit.

use std::ops::Range;

/// Maximum number of ranges of a file.
pub const RANGES_MAX: usize = 256;
/// Differing bytes with fewer equal ones between them are one range: damage that happens to equal
/// the stored byte here and there.
const JOIN_BYTES: u64 = 16;

/// Adds a range to a set.
pub fn add(set: &mut Vec<Range<u64>>, range: Range<u64>) {
    if range.is_empty() {
        return;
    }
    let first = set.partition_point(|known| known.end < range.start);
    let end = set.partition_point(|known| known.start <= range.end);
    let mut joined = range;
    for known in set.drain(first..end) {
        joined.start = joined.start.min(known.start);
        joined.end = joined.end.max(known.end);
    }
    set.insert(first, joined);
    while set.len() > RANGES_MAX
        && let Some(last) = set.pop()
    {
        if let Some(before) = set.last_mut() {
            before.end = last.end;
        }
    }
}

/// Visits the ranges in which two slices differ; `at` is the offset of their first byte. Bytes that
/// only one of them has differ.
pub fn differences(expected: &[u8], found: &[u8], at: u64, visit: &mut dyn FnMut(Range<u64>)) {
    let mut open: Option<Range<u64>> = None;
    for (offset, (one, other)) in (at..).zip(expected.iter().zip(found)) {
        if one == other {
            continue;
        }
        match &mut open {
            Some(range) if offset - range.end < JOIN_BYTES => range.end = offset + 1,
            _ => open
                .replace(offset..offset + 1)
                .into_iter()
                .for_each(&mut *visit),
        }
    }
    open.into_iter().for_each(&mut *visit);
    let common = expected.len().min(found.len()) as u64;
    let longest = expected.len().max(found.len()) as u64;
    if common < longest {
        visit(at + common..at + longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_and_stay_bounded() {
        let mut set = Vec::new();
        for (start, end) in [(10, 20), (30, 40), (5, 5), (20, 22), (0, 3), (39, 50)] {
            add(&mut set, start..end);
        }
        assert_eq!(set, [0..3, 10..22, 30..50]);
        add(&mut set, 2..31);
        assert_eq!(set.len(), 1);
        assert_eq!(set[0], 0..50);
        for n in 0..1000 {
            add(&mut set, 100 + n * 10..101 + n * 10);
        }
        assert_eq!(set.len(), RANGES_MAX);
        assert_eq!(set.last().unwrap().end, 100 + 9990 + 1);
    }

    #[test]
    fn exactly_the_bytes_that_differ() {
        let of = |expected: &[u8], found: &[u8]| {
            let mut ranges = Vec::new();
            differences(expected, found, 1000, &mut |range| ranges.push(range));
            ranges
        };
        let expected = vec![1; 100];
        assert_eq!(of(&expected, &expected), []);
        let mut found = expected.clone();
        (found[3], found[10], found[60], found[99]) = (0, 0, 0, 0);
        assert_eq!(of(&expected, &found), [1003..1011, 1060..1061, 1099..1100]);
        assert_eq!(of(&expected, &expected[..90]).first(), Some(&(1090..1100)));
        assert_eq!(of(&[], &[1, 2]).first(), Some(&(1000..1002)));
    }
}
