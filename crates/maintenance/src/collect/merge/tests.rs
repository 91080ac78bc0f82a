//! Merging, computed from sizes alone.

use super::*;
use units::WriterId;

const KIB: u64 = 1 << 10;
const FULL: u64 = 16 << 20;
const SMALL: u64 = FULL * 12 / 100;

fn small(number: u64, class: ContainerClass, live_bytes: u64) -> Small {
    Small {
        id: ContainerId::new(WriterId(1), number),
        class,
        live_bytes,
    }
}

/// A pool of which only the sizes are known.
#[derive(Default)]
struct Sizes {
    bytes: Vec<u64>,
    copied: u64,
}

impl Sizes {
    fn smalls(&self) -> Vec<Small> {
        let numbered = (0..).zip(&self.bytes);
        let small_only = numbered.filter(|(_, bytes)| **bytes < SMALL);
        small_only
            .map(|(n, bytes)| small(n, ContainerClass::Data, *bytes))
            .collect()
    }

    /// One run: merged containers become full ones and a rest. Returns the bytes copied.
    fn run(&mut self) -> u64 {
        let mut chosen: Vec<u64> = Vec::new();
        for merged in to_merge(&self.smalls(), 16, u64::MAX) {
            chosen.push(merged.live_bytes);
            let at = self.bytes.iter().position(|b| *b == merged.live_bytes);
            self.bytes.remove(at.expect("one of them"));
        }
        let copied: u64 = chosen.iter().sum();
        let full = (copied / FULL) as usize;
        self.bytes.extend(std::iter::repeat_n(FULL, full));
        self.bytes
            .extend(Some(copied % FULL).filter(|rest| *rest > 0));
        self.copied += copied;
        copied
    }
}

#[test]
fn a_second_run_copies_nothing_and_few_stay() {
    let mut dice = 7u64;
    for round in 0..300u64 {
        let mut pool = Sizes::default();
        for _ in 0..round * 5 {
            dice = dice
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let order = (dice >> 33) % 14;
            pool.bytes.push(KIB + ((dice >> 40) % (KIB << order)));
        }
        if pool.run() > 0 {
            // Small containers of the run's own commits begin no merge.
            pool.bytes.extend([KIB, KIB]);
        }
        assert_eq!(pool.run(), 0, "round {round}");
        assert!(pool.smalls().len() <= 150, "{} stay", pool.smalls().len());
    }
}

#[test]
fn what_is_merged_is_copied_a_few_times_in_all() {
    for commit_bytes in [KIB, 16 * KIB, 100 * KIB] {
        let mut pool = Sizes::default();
        let mut stored = 0;
        let mut most = 0;
        for commit in 0..40_000u64 {
            let bytes = commit_bytes + commit % 7 * (commit_bytes / 8);
            pool.bytes.push(bytes);
            stored += bytes;
            if commit % 10 == 0 {
                pool.run();
            }
            most = most.max(pool.smalls().len());
        }
        let times = pool.copied as f64 / stored as f64;
        println!("{commit_bytes}: {times:.2} times, {most} small ones at most");
        // Each copy goes into a container eight times as large; count these steps from
        // `commit_bytes` to SMALL.
        let steps = (SMALL as f64 / commit_bytes as f64).log(8.0).ceil();
        assert!(times <= steps + 1.0, "{times} times, {steps} steps");
        assert!(most <= 150, "{most} small ones");
    }
}

#[test]
fn classes_and_room_are_kept_to() {
    let data = (0..15).map(|n| small(n, ContainerClass::Data, 100));
    let recipes = (20..35).map(|n| small(n, ContainerClass::Recipe, 100));
    let mut both: Vec<_> = data.chain(recipes).collect();
    assert_eq!(to_merge(&both, 16, u64::MAX), [], "fifteen of each");
    both.push(small(40, ContainerClass::Data, 100));
    let chosen = to_merge(&both, 16, u64::MAX);
    assert_eq!(chosen.len(), 16);
    assert!(chosen.iter().all(|s| s.class == ContainerClass::Data));
    assert_eq!(to_merge(&both, 16, 1599), []);
    assert_eq!(to_merge(&both, 16, 1600).len(), 16);
    assert_eq!(to_merge(&both, 0, u64::MAX), [], "never");
    // A larger one joins, a much larger one does not.
    both.push(small(41, ContainerClass::Data, 200));
    both.push(small(42, ContainerClass::Data, 2000));
    let chosen = to_merge(&both, 16, u64::MAX);
    assert_eq!(chosen.len(), 17);
    assert!(chosen.iter().all(|s| s.live_bytes <= 200));
}
