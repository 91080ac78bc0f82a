//! Crafted journals with valid checksums: a short, seeded version of the fuzz target `journal`.

use crate::crafted_journal;

use sim::Seed;
use std::panic::catch_unwind;

#[test]
fn crafted_journals_open_and_can_be_used() {
    let (mut with_records, mut with_damage) = (0, 0);
    for number in 0..30_000 {
        let mut seed = Seed::new(number);
        let steps = 1 + seed.below(120);
        let mut data = Vec::new();
        for _ in 0..steps {
            // Most fields have small values.
            let small = seed.below(4) > 0;
            let byte = seed.draw() as u8;
            data.push(if small { byte % 8 } else { byte });
        }
        let Ok((records, damage)) = catch_unwind(|| crafted_journal::exercise(&data)) else {
            panic!("{number}: {data:02x?}");
        };
        with_records += usize::from(records > 0);
        with_damage += usize::from(damage > 0);
    }
    println!("{with_records} with records, {with_damage} with damage");
    assert!(with_records > 300 && with_damage > 300);
}
