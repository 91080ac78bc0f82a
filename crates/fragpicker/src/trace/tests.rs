use super::*;

const KIB: u64 = 1 << 10;

fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (*seed ^ (*seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn read(object: u64, offset: u64, len: u64) -> TracedRequest {
    TracedRequest {
        object,
        offset,
        len,
        is_direct: false,
        is_write: false,
    }
}

fn direct(object: u64, offset: u64, len: u64) -> TracedRequest {
    TracedRequest {
        is_direct: true,
        ..read(object, offset, len)
    }
}

fn traced(accesses: &[TracedRequest]) -> Vec<(u64, u64, u64)> {
    let mut trace = Trace::new(TraceOptions::default());
    accesses.iter().for_each(|access| trace.record(access));
    let ranges = trace.ranges(1, u64::MAX);
    let in_kib = |r: &HotRange| (r.start / KIB, r.end / KIB, r.weight / REQUEST_WEIGHT);
    ranges.iter().map(in_kib).collect()
}

#[test]
fn requests_are_aligned_and_stay_apart() {
    let accesses = [
        direct(1, 5000, 10),
        direct(1, 8 * KIB, 4 * KIB),
        direct(1, 20 * KIB + 1, 4 * KIB),
        direct(1, 20 * KIB, 1),
        direct(1, 40 * KIB, 0),
    ];
    assert_eq!(traced(&accesses), [(4, 8, 1), (8, 12, 1), (20, 28, 2)]);
}

#[test]
fn sequential_reads_become_windows() {
    // 64 reads of 16 KiB: the first is recorded as it is, then windows one after another.
    let reads: Vec<TracedRequest> = (0..64).map(|n| read(1, n * 16 * KIB, 16 * KIB)).collect();
    let windows: Vec<(u64, u64, u64)> = (0..8).map(|n| (16 + n * 128, 144 + n * 128, 1)).collect();
    assert_eq!(traced(&reads)[1..], windows);
    // Reads of less than a block are also sequential.
    let small: Vec<TracedRequest> = (0..1024).map(|n| read(1, n * KIB, KIB)).collect();
    assert_eq!(traced(&small).len(), 8);
    // Larger ones are not cut.
    let large: Vec<TracedRequest> = (0..3).map(|n| read(1, n * 300 * KIB, 300 * KIB)).collect();
    assert_eq!(traced(&large), [(0, 300, 1), (300, 600, 1), (600, 900, 1)]);
}

#[test]
fn what_does_not_continue_closes_the_window() {
    let accesses = [
        read(1, 0, 4 * KIB),
        read(1, 4 * KIB, 4 * KIB),
        // A read elsewhere; then one back in the window, which is closed.
        read(1, 1000 * KIB, 4 * KIB),
        read(1, 8 * KIB, 4 * KIB),
        read(1, 12 * KIB, 4 * KIB),
    ];
    // The fourth is recorded as a request, and the fifth reads ahead again.
    let expected = [(0, 4, 1), (4, 140, 3), (1000, 1004, 1)];
    assert_eq!(traced(&accesses), expected);
    // Writes and direct requests stay as issued, even where they continue.
    let write = |n: u64| TracedRequest {
        is_write: true,
        ..read(1, n * 4 * KIB, 4 * KIB)
    };
    assert_eq!(traced(&[write(0), write(1), write(2)]).len(), 3);
    let direct: Vec<TracedRequest> = (0..5).map(|n| direct(1, n * 8 * KIB, 8 * KIB)).collect();
    assert_eq!(traced(&direct).len(), 5);
}

#[test]
fn objects_have_windows_of_their_own() {
    let mut accesses = Vec::new();
    for n in 0..32 {
        accesses.push(read(1, n * 4 * KIB, 4 * KIB));
        accesses.push(read(2, n * 64 * KIB, 4 * KIB));
    }
    assert_eq!(traced(&accesses), [(0, 4, 1), (4, 132, 1)]);
}

/// Joins ranges by comparing every pair until nothing changes.
fn naive(requests: &[(u64, u64)]) -> Vec<(u64, u64, u64)> {
    let mut ranges: Vec<(u64, u64, u64)> = Vec::new();
    for (start, end) in requests {
        let mut joined = (*start, *end, 1);
        while let Some(at) = ranges.iter().position(|r| r.0 < joined.1 && joined.0 < r.1) {
            let other = ranges.swap_remove(at);
            joined = (
                joined.0.min(other.0),
                joined.1.max(other.1),
                joined.2 + other.2,
            );
        }
        ranges.push(joined);
    }
    ranges.sort();
    ranges
}

#[test]
fn overlaps_are_joined_as_a_naive_model_joins_them() {
    for seed in 0..50 {
        let mut state = seed;
        let requests: Vec<(u64, u64)> = (0..next(&mut state) % 60)
            .map(|_| {
                let start = next(&mut state) % 300 * 4;
                (start, start + next(&mut state) % 5 * 4 + 4)
            })
            .collect();
        let accesses: Vec<TracedRequest> = requests
            .iter()
            .map(|(start, end)| direct(1, start * KIB, (end - start) * KIB))
            .collect();
        assert_eq!(traced(&accesses), naive(&requests), "seed {seed}");
    }
}

#[test]
fn counts_fade() {
    let mut trace = Trace::new(TraceOptions {
        ranges_max: 1000,
        half_life: 100,
    });
    (0..64).for_each(|_| trace.record(&direct(1, 0, 4096)));
    // Reads of another object advance the time.
    (0..536).for_each(|_| trace.record(&direct(2, 0, 4096)));
    let weight = |trace: &Trace| trace.ranges(1, u64::MAX).first().map(|r| r.weight);
    assert_eq!(weight(&trace), Some(REQUEST_WEIGHT), "64 halved six times");
    assert_eq!(trace.objects().first().map(|o| o.0), Some(2));
    (0..900).for_each(|_| trace.record(&direct(2, 0, 4096)));
    assert_eq!(weight(&trace), None);
    assert_eq!(trace.objects().len(), 1);
}

#[test]
fn memory_has_a_limit_and_a_scan_does_not_push_out_what_is_hot() {
    let mut trace = Trace::new(TraceOptions {
        ranges_max: 1000,
        half_life: 1 << 20,
    });
    for n in 0..50_000u64 {
        trace.record(&direct(7, n % 100 * 8192, 4096));
        trace.record(&direct(n, 1 << 20, 4096));
        assert!(trace.len() <= 1000);
    }
    assert!(trace.readers.len() <= 1000);
    assert_eq!(trace.requests(), 100_000);
    assert!(trace.dropped() > 48_000);
    let hot = trace.ranges(7, u64::MAX);
    assert!(hot.len() >= 100 && trace.objects()[0].0 == 7);
    let counted: u64 = hot.iter().map(|r| r.weight / REQUEST_WEIGHT).sum();
    assert!(counted > 49_000, "{counted} of 50,000");
    trace.forget(7);
    assert!(trace.ranges(7, u64::MAX).is_empty());
}

#[test]
fn ranges_end_where_the_object_does() {
    let mut trace = Trace::new(TraceOptions::default());
    trace.record(&read(1, 0, 4096));
    trace.record(&read(1, 4096, 100));
    trace.record(&direct(1, u64::MAX - 10, 100));
    let ranges = trace.ranges(1, 5000);
    assert_eq!(ranges.last().map(|r| (r.start, r.end)), Some((4096, 5000)));
    assert_eq!(trace.ranges(1, 4096).len(), 1);
}
