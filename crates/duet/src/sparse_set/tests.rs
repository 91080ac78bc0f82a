use super::*;
use std::collections::BTreeSet;

fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    crate::hash::mix(*seed)
}

fn assert_same(set: &SparseSet, model: &BTreeSet<u128>) {
    assert_eq!(set.len(), model.len() as u128);
    let numbers: Vec<u128> = set.ranges().into_iter().flatten().collect();
    assert!(numbers.iter().eq(model.iter()));
    let ranges = set.ranges();
    assert!(ranges.windows(2).all(|w| w[0].end < w[1].start), "gaps");
    let is_full = |b: &Block| b.len() == BLOCK as usize || b.len() == 0;
    assert!(!set.blocks.values().any(is_full));
    let runs: Vec<_> = set.full.iter().collect();
    assert!(
        runs.windows(2).all(|w| w[0].1 < w[1].0),
        "runs do not touch"
    );
}

#[test]
fn agrees_with_a_set_of_numbers() {
    for seed in 0..6u64 {
        let (mut set, mut model) = (SparseSet::default(), BTreeSet::new());
        let mut state = seed;
        for step in 0..3000u64 {
            let number = u128::from(next(&mut state) % 40_000);
            match next(&mut state) % 100 {
                0 => {
                    let end = number + u128::from(next(&mut state) % 20_000);
                    set.insert_range(number..end);
                    model.extend(number..end);
                }
                1 => {
                    let end = number + u128::from(next(&mut state) % 15_000);
                    set.remove_range(number..end);
                    model.retain(|n| !(number..end).contains(n));
                }
                2..40 => assert_eq!(set.remove(number), model.remove(&number)),
                40..80 => assert_eq!(set.insert(number), model.insert(number)),
                _ => assert_eq!(set.contains(number), model.contains(&number)),
            }
            if step % 300 == 0 {
                assert_same(&set, &model);
            }
        }
        assert_same(&set, &model);
        for number in model {
            assert!(set.remove(number));
        }
        assert!(set.blocks.is_empty() && set.full.is_empty() && set.len() == 0);
    }
}

#[test]
fn work_in_order_takes_a_run() {
    let mut set = SparseSet::default();
    (0..100_000).for_each(|n| {
        set.insert(n);
        assert!(set.full.len() <= 1 && set.blocks.len() <= 1);
    });
    assert!(set.memory_bytes() < 700);
    // Runs of any length need constant memory, because lengths come from disk.
    set.insert_range(1 << 40..1 << 120);
    assert_eq!(set.len(), 100_000 + (1 << 120) - (1 << 40));
    assert!(set.memory_bytes() < 800);
    assert!(set.contains(1 << 100) && !set.contains(1 << 39));
}

#[test]
fn work_out_of_order_takes_at_most_two_bytes_and_a_block() {
    let mut set = SparseSet::default();
    // Every tenth of 409,600 numbers, from the end.
    (0..40_960u128).rev().for_each(|n| {
        set.insert(n * 10);
    });
    assert!(set.memory_bytes() <= 100 * (512 + 64));
}
