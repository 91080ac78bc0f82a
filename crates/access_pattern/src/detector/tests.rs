use super::*;
use Pattern::{Monotonic, Random, Sequential};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// Far apart at any threshold: odd multiples scatter over a 2 GiB region.
const FAR: [u64; 16] = [7, 2, 12, 5, 15, 0, 9, 3, 13, 6, 1, 11, 4, 14, 8, 10];

fn detector() -> Detector {
    Detector::new(2 * GIB, Threshold { bytes: MIB })
}

/// Fills the history with requests that are far from each other.
fn scattered() -> Detector {
    let mut detector = detector();
    for n in FAR {
        detector.observe(n * 100 * MIB, 4 * KIB);
    }
    detector
}

#[test]
fn sequential_until_the_history_is_full() {
    let mut detector = detector();
    for n in FAR {
        assert_eq!(detector.observe(n * 100 * MIB, 4 * KIB), Sequential);
    }
    assert_eq!(detector.observe(1950 * MIB, 4 * KIB), Random);
}

/// The threshold counts from the start and from the end of a request.
#[test]
fn near_is_within_the_threshold_of_any_of_the_sixteen() {
    let base = 50 * MIB;
    for (offset, pattern) in [
        (base, Sequential),
        (base + 4 * KIB, Sequential),
        (base + 4 * KIB + MIB, Sequential),
        (base + 4 * KIB + MIB + 512, Random),
        (base - MIB, Sequential),
        (base - MIB - 512, Random),
    ] {
        for position in 0..16 {
            let mut detector = detector();
            for (n, far) in FAR.into_iter().enumerate() {
                let there = if n == position {
                    base
                } else {
                    (far + 4) * 100 * MIB
                };
                detector.observe(there, 4 * KIB);
            }
            assert_eq!(
                detector.observe(offset, 4 * KIB),
                pattern,
                "{offset} at {position}"
            );
        }
    }
}

#[test]
fn the_seventeenth_last_request_is_forgotten() {
    let mut detector = scattered();
    detector.observe(1999 * MIB, 4 * KIB);
    assert_eq!(
        detector.observe(700 * MIB, 4 * KIB),
        Random,
        "the first of FAR is gone"
    );
    assert_eq!(
        detector.observe(1200 * MIB, 4 * KIB),
        Sequential,
        "the third is not"
    );
}

#[test]
fn from_random_to_sequential_at_the_second_request() {
    let mut detector = scattered();
    assert_eq!(detector.observe(1650 * MIB, 64 * KIB), Random);
    for n in 1..100 {
        let offset = 1650 * MIB + n * 64 * KIB;
        assert_eq!(detector.observe(offset, 64 * KIB), Sequential);
    }
    assert_eq!(detector.observe(50 * MIB, 4 * KIB), Random);
}

#[test]
fn from_sequential_to_gaps_upwards_at_once() {
    let mut detector = detector();
    for n in 0..40 {
        assert_eq!(detector.observe(n * 64 * KIB, 64 * KIB), Sequential);
    }
    for n in 1..100 {
        assert_eq!(detector.observe(n * 10 * MIB, 64 * KIB), Monotonic);
    }
}

#[test]
fn from_random_to_gaps_upwards_within_sixteen_requests() {
    let mut detector = scattered();
    let patterns: Vec<Pattern> = (0..60)
        .map(|n| detector.observe(n * 30 * MIB + 50 * MIB, 64 * KIB))
        .collect();
    let first_far = |p: &Pattern| *p == Monotonic;
    let at = patterns.iter().position(first_far).expect("some are");
    assert!((4..16).contains(&at), "{at}");
    // The steps pass scattered requests and are near them before this point.
    assert!(
        patterns[16..].iter().all(|p| *p == Monotonic),
        "{patterns:?}"
    );
}

#[test]
fn a_monotonic_request_may_be_overtaken() {
    let mut detector = detector();
    let mut patterns = Vec::new();
    for group in 0..20u64 {
        for n in [3, 0, 5, 2, 4, 1] {
            let offset = (group * 6 + n) * 10 * MIB;
            patterns.push(detector.observe(offset, 64 * KIB));
        }
    }
    assert!(
        patterns[16..].iter().all(|p| *p == Monotonic),
        "{patterns:?}"
    );
}

#[test]
fn backwards_is_sequential_in_small_steps_and_random_in_large_ones() {
    for (step, pattern) in [(64 * KIB, Sequential), (MIB + KIB, Random)] {
        let mut detector = detector();
        let all = (0..100).map(|n| detector.observe(GIB - n * step, 512));
        let last = all.skip(16).collect::<Vec<_>>();
        assert!(last.iter().all(|p| *p == pattern), "{step}: {last:?}");
    }
}

#[test]
fn regions_do_not_disturb_each_other() {
    let mut detector = Detector::new(8 * GIB, Threshold { bytes: MIB });
    let scatter = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (2 * GIB);
    let mut last = Sequential;
    for n in 0..200 {
        let sequential = 5 * GIB + n * 64 * KIB;
        assert_eq!(detector.observe(sequential, 64 * KIB), Sequential);
        last = detector.observe(scatter(n), 4 * KIB);
    }
    assert_eq!(last, Random);
    assert_eq!(
        detector.observe(3 * GIB, 4 * KIB),
        Sequential,
        "nothing happened there"
    );
}

/// Tries sizes from nothing to the largest. Regions have at least 2 GiB; there are at most 16.
#[test]
fn any_size_and_any_offset() {
    for (bytes, regions) in [
        (0, 1),
        (1, 1),
        (4 * GIB - 1, 1),
        (4 * GIB, 2),
        (33 * GIB, 16),
        (1 << 50, 16),
        (u64::MAX, 16),
    ] {
        let mut detector = Detector::new(bytes, Threshold::for_object(bytes));
        assert_eq!(detector.regions_used, regions, "{bytes}");
        assert!(regions == 1 || detector.region_bytes >= REGION_BYTES_MIN);
        for offset in [0, 1, bytes / 2, bytes, u64::MAX] {
            for len in [0, 1, u64::MAX] {
                detector.observe(offset, len);
            }
        }
    }
}

#[test]
fn the_size_that_the_evaluation_tells() {
    assert_eq!(size_of::<Detector>(), 2136);
}
