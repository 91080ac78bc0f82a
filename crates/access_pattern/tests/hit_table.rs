//! Prints the hit table: the detector's verdicts on traces like those of fio, and the share of
//! fetched bytes that are requested later.
//!
//! Run `cargo test -p access_pattern --test hit_table -- --nocapture`.
//! `docs/evaluation/access-pattern.md` holds the table.

use access_pattern::{Detector, FetchInto, FetchLimits, Pattern, Prefetch, Threshold};
use std::collections::HashSet;

const KIB: u64 = 1 << 10;
const GIB: u64 = 1 << 30;
const OBJECT: u64 = 100 * GIB;
const REQUESTS: u64 = 20_000;

type Trace = Vec<(u64, u64)>;

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(x ^ (x >> 31)) * u128::from(end)) >> 64) as u64
    }

    fn unit(&mut self) -> f64 {
        self.below(1 << 52) as f64 / (1u64 << 52) as f64
    }
}

fn sequential(start: u64, len: u64) -> Trace {
    (0..REQUESTS).map(|n| (start + n * len, len)).collect()
}

/// Requests leave in order and arrive up to `depth` - 1 positions early or late.
fn in_flight(trace: &Trace, depth: u64) -> Trace {
    let mut numbers = Numbers(1);
    let delayed = (0u64..).zip(trace);
    let mut delayed: Vec<_> = delayed
        .map(|(n, request)| (n + numbers.below(depth), *request))
        .collect();
    delayed.sort_by_key(|(at, _)| *at);
    delayed.into_iter().map(|(_, request)| request).collect()
}

fn interleaved(a: &Trace, b: &Trace) -> Trace {
    a.iter().zip(b).flat_map(|(a, b)| [*a, *b]).collect()
}

/// Zipf over 4 KiB pages whose ranks are scattered, as `random_distribution=zipf` of fio does.
fn zipf(theta: f64) -> Trace {
    let (mut numbers, pages) = (Numbers(2), OBJECT / 4096);
    // Inversion of the continuous distribution from 1 on; close enough for a trace.
    let power = 1.0 - theta;
    let rank = |u: f64| (1.0 + u * ((pages as f64).powf(power) - 1.0)).powf(1.0 / power) as u64;
    (0..REQUESTS)
        .map(|_| {
            let scattered = rank(numbers.unit()).wrapping_mul(0x9e37_79b9_7f4a_7c15) % pages;
            (scattered * 4096, 4096)
        })
        .collect()
}

/// Returns name, requests, the expected pattern of most of them, and the minimum percentage.
fn traces() -> Vec<(&'static str, Trace, Pattern, f64)> {
    let mut numbers = Numbers(3);
    let seq = sequential(GIB, 64 * KIB);
    let two = interleaved(
        &sequential(0, 64 * KIB),
        &sequential(3 * GIB / 2 + 4096, 16 * KIB),
    );
    let stride = |len: u64, step: u64| (0..REQUESTS).map(|n| (n * step, len)).collect();
    let random: Trace = (0..REQUESTS)
        .map(|_| (numbers.below(OBJECT / 4096) * 4096, 4096))
        .collect();
    let changed: Trace = (0..REQUESTS)
        .scan(0, |at, _| {
            *at += (2 << 20) + numbers.below(4 << 20);
            Some((*at, 64 * KIB))
        })
        .collect();
    let backwards = |step: u64| (1..REQUESTS).map(|n| (OBJECT - n * step, 4096)).collect();
    let mixed = interleaved(&sequential(GIB, 64 * KIB), &random);
    use Pattern::{Monotonic, Random, Sequential};
    vec![
        ("sequential, 4 KiB", sequential(0, 4096), Sequential, 100.0),
        ("sequential, 64 KiB", seq.clone(), Sequential, 100.0),
        (
            "sequential, 64 KiB, 16 in flight",
            in_flight(&seq, 16),
            Sequential,
            100.0,
        ),
        (
            "two sequential, interleaved",
            two.clone(),
            Sequential,
            100.0,
        ),
        (
            "two sequential, 16 in flight",
            in_flight(&two, 16),
            Sequential,
            100.0,
        ),
        (
            "stride, 128 KiB of each 416 KiB",
            stride(128 * KIB, 416 * KIB),
            Sequential,
            100.0,
        ),
        (
            "stride, 128 KiB of each 4 MiB",
            stride(128 * KIB, 4 << 20),
            Monotonic,
            98.0,
        ),
        (
            "upwards, gaps of 2 to 6 MiB",
            changed.clone(),
            Monotonic,
            98.0,
        ),
        (
            "upwards, gaps, 4 in flight",
            in_flight(&changed, 4),
            Monotonic,
            98.0,
        ),
        ("zipf 0.9, 4 KiB", zipf(0.9), Random, 90.0),
        ("random, 4 KiB", random.clone(), Random, 96.0),
        ("backwards, 4 KiB", backwards(4096), Sequential, 100.0),
        (
            "backwards, 4 KiB of each 4 MiB",
            backwards(4 << 20),
            Random,
            97.0,
        ),
        ("one sequential, one random", mixed, Sequential, 50.0),
    ]
}

#[derive(Default)]
struct Row {
    /// Numbers of sequential, monotonic and random requests.
    patterns: [u64; 3],
    fetched: u64,
    wanted: u64,
    hits: u64,
}

fn run(trace: &Trace, threshold: Threshold) -> Row {
    let mut detector = Detector::new(OBJECT, threshold);
    let mut prefetch = Prefetch::new(OBJECT, threshold.bytes, FetchLimits::default());
    let (mut ahead, mut wanted) = (HashSet::new(), HashSet::new());
    let mut row = Row::default();
    for (offset, len) in trace {
        let pages = offset / 4096..(offset + len) / 4096;
        row.hits += u64::from(pages.clone().all(|page| ahead.contains(&page)));
        wanted.extend(pages.filter(|page| ahead.contains(page)));
        let pattern = detector.observe(*offset, *len);
        row.patterns[pattern as usize] += 1;
        let fetch = prefetch.plan(pattern, *offset, *len);
        for (start, end) in fetch
            .iter()
            .filter(|f| f.into == FetchInto::Memory)
            .flat_map(|f| f.ranges())
        {
            ahead.extend(start / 4096..end.div_ceil(4096));
        }
    }
    row.fetched = ahead.len() as u64;
    row.wanted = wanted.len() as u64;
    row
}

fn percent(part: u64, of: u64) -> f64 {
    if of == 0 {
        0.0
    } else {
        100.0 * part as f64 / of as f64
    }
}

#[test]
fn the_table() {
    println!(
        "| trace | sequential | monotonic | random | fetched, of what was asked | hits | of what was fetched, used |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (name, trace, expected, at_least) in traces() {
        let row = run(&trace, Threshold::for_object(OBJECT));
        let total: u64 = row.patterns.iter().sum();
        let [sequential, monotonic, random] = row.patterns.map(|n| percent(n, total));
        let asked: u64 = trace.iter().map(|(_, len)| len / 4096).sum();
        println!(
            "| {name} | {sequential:.1} | {monotonic:.1} | {random:.1} | {:.1} | {:.1} | {:.1} |",
            percent(row.fetched, asked),
            percent(row.hits, total),
            percent(row.wanted, row.fetched)
        );
        let said = percent(row.patterns[expected as usize], total);
        assert!(said >= at_least, "{name}: {said} % are {expected:?}");
        assert!(
            row.fetched <= 2 * asked,
            "{name}: fetches {} for {asked}",
            row.fetched
        );
    }
}

/// With several streams in flight and interleaved, every request is sequential.
#[test]
fn parallel_sequential_streams_stay_sequential() {
    for (name, trace, _, _) in traces().into_iter().filter(|t| t.3 == 100.0) {
        let row = run(&trace, Threshold::for_object(OBJECT));
        assert_eq!(row.patterns[1..], [0, 0], "{name}");
    }
}

#[test]
fn what_the_threshold_does() {
    println!(
        "| threshold, KiB | random called sequential, % | 16 in flight of 64 KiB called sequential, % |"
    );
    println!("|---|---|---|");
    let find = |wanted: &str| {
        traces()
            .into_iter()
            .find(|t| t.0 == wanted)
            .expect("a trace")
            .1
    };
    let (random, flight) = (find("random, 4 KiB"), find("two sequential, 16 in flight"));
    let mut before = (-1.0, -1.0);
    for kib in [16, 128, 512, 1024, 4096, 16_384] {
        let threshold = Threshold { bytes: kib * KIB };
        let said = |trace| percent(run(trace, threshold).patterns[0], trace.len() as u64);
        let now = (said(&random), said(&flight));
        println!("| {kib} | {:.2} | {:.2} |", now.0, now.1);
        assert!(now.0 >= before.0 && now.1 >= before.1);
        before = now;
    }
}
