use super::*;
use crate::migrate::{Migrated, Target};
use std::os::unix::fs::FileExt;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

fn range(start: u64, end: u64) -> HotRange {
    HotRange {
        start,
        end,
        weight: REQUEST_WEIGHT,
    }
}

fn options(moves_shared: bool) -> SpanOptions {
    SpanOptions {
        moves_shared,
        joins: false,
    }
}

/// A file of two windows, in pieces because every other block was moved. None where extents cannot
/// be moved.
fn scattered() -> Option<tempfile::NamedTempFile> {
    let file = tempfile::NamedTempFile::new_in(".").unwrap();
    file.as_file().write_all_at(&[1; 256 << 10], 0).unwrap();
    file.as_file().sync_data().unwrap();
    let target = Target::open(file.path()).ok()?;
    let mut moved = Migrated::default();
    for block in (1..64).step_by(2) {
        let range = block * 4096..(block + 1) * 4096;
        target.relocate(&[range], false, &mut moved).ok()?;
    }
    file.as_file().sync_data().unwrap();
    Some(file)
}

#[test]
fn ranges_of_a_span_are_cut_to_the_file_and_end_within_reach_of_the_first() {
    let size = 200 * MIB;
    let all = [
        range(MIB, 2 * MIB),
        range(10 * MIB, 100 * MIB),
        range(100 * MIB, 101 * MIB),
        range(199 * MIB, 220 * MIB),
        range(230 * MIB, 231 * MIB),
    ];
    let starts = |from: u64| {
        let found = ranges_from(&all, from, size);
        let ends: Vec<_> = found.iter().map(|r| (r.start / MIB, r.end / MIB)).collect();
        ends
    };
    assert_eq!(starts(0), [(1, 2), (10, 100)]);
    assert_eq!(starts(100 * MIB), [(100, 101)]);
    assert_eq!(starts(101 * MIB), [(199, 200)]);
    assert_eq!(starts(200 * MIB), []);
    assert_eq!(starts(u64::MAX), []);
    assert_eq!(ranges_from(&[], 0, size), []);
}

#[test]
fn ranges_that_an_extent_meets_are_refused_and_no_others() {
    let plan_of = || MovePlan {
        ranges: vec![0..10, 10..20, 30..40],
        bytes: 30,
        ..MovePlan::default()
    };
    let left = |extent: Range<u64>| {
        let (mut plan, mut skipped) = (plan_of(), Vec::new());
        refuse(extent, MigrationError::Compressed, &mut plan, &mut skipped);
        let sums = skipped.iter().map(|s| (s.why.name(), s.ranges, s.bytes));
        (plan.ranges, plan.bytes, sums.collect::<Vec<_>>())
    };
    assert_eq!(left(20..30), (plan_of().ranges, 30, vec![]));
    assert_eq!(left(40..99), (plan_of().ranges, 30, vec![]));
    let one = (vec![0..10, 30..40], 20, vec![("compressed", 1, 10)]);
    assert_eq!(left(10..20), one);
    assert_eq!(left(19..30), one);
    let two = (
        plan_of().ranges.split_off(2),
        10,
        vec![("compressed", 2, 20)],
    );
    assert_eq!(left(9..11), two);
    assert_eq!(left(0..99), (vec![], 0, vec![("compressed", 3, 30)]));
}

#[test]
fn an_empty_file_and_a_hole_have_no_spans() {
    let file = tempfile::NamedTempFile::new_in(".").unwrap();
    let all = [range(0, 4 * MIB)];
    for wanted in [Wanted::Windows, Wanted::Hot(&all)] {
        assert!(
            plan_span(file.as_file(), 0, wanted, options(false))
                .unwrap()
                .is_none()
        );
    }
    file.as_file().set_len(1 << 40).unwrap();
    let by_windows = plan_span(file.as_file(), 0, Wanted::Windows, options(false)).unwrap();
    assert!(by_windows.is_none());
    // A hot hole is looked at, and whole.
    let by_heat = plan_span(file.as_file(), 0, Wanted::Hot(&all), options(false));
    let by_heat = by_heat.unwrap().unwrap();
    assert_eq!((by_heat.end, by_heat.plan.whole), (4 * MIB, 1));
    assert!(by_heat.plan.ranges.is_empty());
    assert_eq!((by_heat.requests_before, by_heat.requests_after), (0, 0));
}

#[test]
fn the_span_of_windows_begins_at_the_window_that_has_data() {
    let file = tempfile::NamedTempFile::new_in(".").unwrap();
    let at = 5 * 64 * MIB + 200 * KIB;
    file.as_file().write_all_at(&[1; 4096], at).unwrap();
    file.as_file().set_len(1 << 40).unwrap();
    file.as_file().sync_data().unwrap();
    let span = plan_span(file.as_file(), 0, Wanted::Windows, options(false)).unwrap();
    let span = span.unwrap();
    assert_eq!(span.end, 5 * 64 * MIB + 128 * KIB + SPAN_BYTES);
    assert_eq!((span.requests_before, span.requests_after), (1, 1));
    let next = plan_span(file.as_file(), span.end, Wanted::Windows, options(false));
    assert!(next.unwrap().is_none());
}

#[test]
fn only_hot_ranges_are_planned_and_requests_weigh_what_they_gain() {
    let Some(file) = scattered() else {
        eprintln!("SKIPPED: no extents can be moved in the directory of this crate");
        return;
    };
    let pieces_of = |window: u64| {
        let at = window * WINDOW_BYTES;
        let pieces = crate::extents::pieces(file.as_file(), at..at + WINDOW_BYTES).unwrap();
        crate::fragments(&pieces)
    };
    let hot = [HotRange {
        start: WINDOW_BYTES,
        end: 2 * WINDOW_BYTES,
        weight: 3 * REQUEST_WEIGHT,
    }];
    let span = plan_span(file.as_file(), 0, Wanted::Hot(&hot), options(false));
    let span = span.unwrap().unwrap();
    assert!(pieces_of(1) > 1, "the test needs a fragmented window");
    assert_eq!(span.plan.ranges.len(), 1);
    let second = WINDOW_BYTES..2 * WINDOW_BYTES;
    assert_eq!(span.plan.ranges.first(), Some(&second));
    assert_eq!(span.plan.bytes, WINDOW_BYTES);
    assert_eq!(span.requests_before, 3 * pieces_of(1));
    assert_eq!(span.requests_after, 3);
    // Both windows without a trace.
    let span = plan_span(file.as_file(), 0, Wanted::Windows, options(false));
    let span = span.unwrap().unwrap();
    assert_eq!(span.plan.ranges.len(), 2);
    assert_eq!(span.requests_before, pieces_of(0) + pieces_of(1));
    assert_eq!(span.requests_after, 2);
}

#[test]
fn whole_ranges_are_joined_only_between_planned_ones_that_are_near() {
    let window = 128 * KIB;
    let windows = |numbers: &[u64]| -> Vec<HotRange> {
        let windows = numbers.iter().map(|n| range(n * window, (n + 1) * window));
        windows.collect()
    };
    let joined = |wanted: &[u64], broken: &[u64]| {
        let ranges = windows(broken).iter().map(|r| r.start..r.end).collect();
        let bytes = broken.len() as u64 * window;
        let mut plan = MovePlan {
            ranges,
            bytes,
            ..MovePlan::default()
        };
        join(&windows(wanted), &mut plan);
        let numbers: Vec<u64> = plan.ranges.iter().map(|r| r.start / window).collect();
        assert_eq!(plan.bytes, numbers.len() as u64 * window);
        numbers
    };
    let all: Vec<u64> = (0..20).collect();
    assert_eq!(joined(&all, &[1, 3, 4, 7]), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(joined(&all, &[]), []);
    // Eight windows are a mebibyte; nine are too far.
    assert_eq!(joined(&all, &[0, 9]), (0..10).collect::<Vec<_>>());
    assert_eq!(joined(&all, &[0, 10]), [0, 10]);
    // Ranges that were not requested are not moved.
    assert_eq!(joined(&[0, 1, 3, 4], &[0, 4]), [0, 4]);
}
