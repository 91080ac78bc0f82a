use super::*;
use Pattern::{Monotonic, Random, Sequential};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const OBJECT: u64 = 1 << 30;

fn prefetch() -> Prefetch {
    Prefetch::new(OBJECT, MIB, FetchLimits::default())
}

#[test]
fn windows_double_to_the_limit_and_cover_everything_once() {
    let mut prefetch = prefetch();
    let mut fetched = Vec::new();
    for n in 0..4096u64 {
        let planned = prefetch.plan(Sequential, n * 16 * KIB, 16 * KIB);
        fetched.extend(planned.map(|f| (f.offset_bytes, f.len_bytes, f.into)));
    }
    assert_eq!(fetched[0].0, 32 * KIB, "the first request is no stream");
    for pair in fetched.windows(2) {
        assert_eq!(pair[0].0 + pair[0].1, pair[1].0, "neither gap nor overlap");
        assert!(pair[1].1 <= 4 * MIB);
    }
    assert!(fetched.iter().all(|f| f.2 == FetchInto::Memory));
    let sizes: Vec<u64> = fetched.iter().map(|f| f.1 / KIB).collect();
    assert!(sizes[..6].is_sorted() && sizes[0] <= 160, "{sizes:?}");
    assert!(sizes[6..].iter().all(|s| *s >= 2048), "{sizes:?}");
}

/// From the third request on, the requested bytes were fetched before.
#[test]
fn interleaved_streams_have_their_own_windows() {
    let mut prefetch = prefetch();
    let mut fetched: Vec<(u64, u64)> = Vec::new();
    for n in 0..500u64 {
        for base in [0, 300 * MIB, 600 * MIB] {
            let at = base + n * 64 * KIB;
            let covered = fetched.iter().any(|(s, e)| *s <= at && at + 64 * KIB <= *e);
            assert!(covered || n < 3, "request {n} of {base}");
            let planned = prefetch.plan(Sequential, at, 64 * KIB);
            fetched.extend(planned.iter().flat_map(Fetch::ranges));
        }
    }
}

#[test]
fn a_steady_step_is_followed_and_the_gaps_are_not_fetched() {
    let mut prefetch = prefetch();
    let (len, step) = (128 * KIB, 2 * MIB);
    let mut fetched: Vec<(u64, u64)> = Vec::new();
    for n in 0..500u64 {
        let at = n * step;
        let covered = fetched.iter().any(|r| *r == (at, at + len));
        assert!(covered || n < 5, "request {n}");
        let planned = prefetch.plan(Monotonic, at, len);
        fetched.extend(planned.iter().flat_map(Fetch::ranges));
    }
    let wasted = fetched.iter().filter(|(start, _)| start % step != 0);
    assert!(wasted.count() <= 2);
    assert!(fetched.iter().all(|(_, end)| *end <= OBJECT));
}

#[test]
fn random_requests_fetch_around_themselves_into_the_fast_tier() {
    let mut prefetch = prefetch();
    let fetch = prefetch.plan(Random, 1000 * KIB, 8 * KIB).expect("planned");
    assert_eq!(fetch.into, FetchInto::FastTier);
    let ranges: Vec<_> = fetch.ranges().collect();
    assert_eq!(ranges, [(896 * KIB, 1024 * KIB)]);
}

/// Any plan lies within the object and within the limit.
#[test]
fn plans_stay_within_object_and_limit() {
    let mut seed = 3u64;
    let mut next = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    for object in [1, 4096, 100 * KIB + 1, OBJECT] {
        let mut prefetch = Prefetch::new(object, MIB, FetchLimits::default());
        for _ in 0..20_000 {
            let pattern = [Sequential, Monotonic, Random][next(3) as usize];
            let offset = next(object);
            let len = 1 + next((object - offset).min(MIB));
            let Some(fetch) = prefetch.plan(pattern, offset, len) else {
                continue;
            };
            assert!(
                fetch
                    .ranges()
                    .all(|(start, end)| start < end && end <= object)
            );
            let total: u64 = fetch.ranges().map(|(start, end)| end - start).sum();
            assert!(total <= 6 * MIB, "{total}: {fetch:?}");
        }
    }
    assert_eq!(prefetch().plan(Sequential, u64::MAX, 2), None);
}

/// Reads `[start, start + len)` in requests of 16 KiB. Returns the bytes that were planned in it,
/// and behind it.
fn read_run(prefetch: &mut Prefetch, start: u64, len: u64) -> (u64, u64) {
    let (mut within, mut behind) = (0, 0);
    for offset in (start..start + len).step_by(16 << 10) {
        let planned = prefetch.plan(Sequential, offset, 16 * KIB);
        for (from, to) in planned.iter().flat_map(Fetch::ranges) {
            within += to.min(start + len).saturating_sub(from);
            behind += to.saturating_sub(from.max(start + len));
        }
    }
    (within, behind)
}

/// Starts of runs, far from each other.
fn starts() -> impl Iterator<Item = u64> {
    (1..).map(|n: u64| n * 7919 % 500 * 2 * MIB)
}

#[test]
fn what_short_runs_never_read_is_no_longer_planned() {
    let mut prefetch = prefetch();
    let mut starts = starts();
    let mut behind = |prefetch: &mut Prefetch, runs| -> u64 {
        let runs = starts.by_ref().take(runs);
        runs.map(|start| read_run(prefetch, start, 64 * KIB).1)
            .sum()
    };
    assert!(behind(&mut prefetch, 12) > 512 * KIB, "no evidence yet");
    assert_eq!(behind(&mut prefetch, 1000), 0);
    // A file of many megabytes among them is read ahead all the same.
    let (within, past) = read_run(&mut prefetch, 100 * MIB, 64 * MIB);
    assert!(within > 63 * MIB, "{within}");
    assert!(past <= 4 * MIB, "{past}");
    // If most runs are long, each is.
    for start in starts.by_ref().take(300) {
        read_run(&mut prefetch, start, MIB);
    }
    let (within, _) = read_run(&mut prefetch, 100 * MIB, MIB);
    assert!(within > 800 * KIB, "{within}");
}

#[test]
fn runs_of_two_lengths_are_read_ahead_if_most_are_long() {
    for (long, are_planned) in [(6, true), (2, false)] {
        let mut prefetch = prefetch();
        for (n, start) in starts().take(1000).enumerate() {
            let len = if n % 10 < long { 512 * KIB } else { 32 * KIB };
            read_run(&mut prefetch, start, len);
        }
        let (within, _) = read_run(&mut prefetch, 100 * MIB + KIB, 256 * KIB);
        assert_eq!(within >= 200 * KIB, are_planned, "{long}: {within}");
    }
}
