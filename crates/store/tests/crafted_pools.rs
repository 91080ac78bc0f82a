//! Seeded loops over mutated and crafted pools: the short, deterministic version of the fuzz
//! targets `pool` and `crafted`.

use crate::crafted;

use crafted::{craft, empty, exercise, mutated, small};
use sim::{Seed, SimDisk};
use std::panic::{AssertUnwindSafe, catch_unwind};
use store::OpenMode;

fn steps(seed: &mut Seed, len_max: u64) -> Vec<u8> {
    let len = seed.below(len_max);
    // Small numbers have a meaning more often.
    let mut byte = |limit| seed.below(limit) as u8;
    (0..len)
        .map(|_| if byte(3) == 0 { byte(256) } else { byte(7) })
        .collect()
}

fn holds(steps: &[u8], run: impl FnOnce() -> usize) -> usize {
    let ran = catch_unwind(AssertUnwindSafe(run));
    ran.unwrap_or_else(|_| panic!("fails on {steps:02x?}"))
}

#[test]
fn mutated_pools_open_or_are_refused() {
    let image = small();
    let mut seed = Seed::new(1);
    let mut read = 0;
    for n in 0..3000 {
        let steps = steps(&mut seed, 40);
        let mode = [OpenMode::Read, OpenMode::Write][n % 2];
        read += holds(&steps, || exercise(&mutated(&image, &steps), mode));
    }
    assert!(read > 1000, "only {read} objects could be read");
}

#[test]
fn crafted_pools_are_read_or_refused() {
    let image = empty();
    let mut seed = Seed::new(2);
    let mut read = 0;
    for _ in 0..3000 {
        let steps = steps(&mut seed, 150);
        read += holds(&steps, || {
            let disk = SimDisk::unrecorded(image.clone());
            let _ = craft(&disk, &steps);
            exercise(&disk, OpenMode::Read)
        });
    }
    assert!(read > 1000, "only {read} objects could be read");
}

#[test]
fn canary_the_small_pool_has_something_to_lose() {
    let disk = SimDisk::unrecorded(small());
    assert_eq!(exercise(&disk, OpenMode::Write), 7);
    let containers = small()
        .files()
        .iter()
        .filter(|(name, _)| name.starts_with("containers"))
        .count();
    assert!(containers > 1);
}
