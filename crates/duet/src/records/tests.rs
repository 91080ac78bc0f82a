use super::*;
use crate::page::Events;
use crate::page::Mask;
use std::collections::BTreeMap;

const SEED: u64 = 7;

fn page(n: u64) -> Page {
    Page {
        space: Space::Chunks,
        object: n % 5,
        generation: 0,
        index: n,
    }
}

fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash::mix(*seed)
}

/// Asserts that every record is in the chain of its bucket once, and that chains have nothing else.
fn assert_linked(records: &Records) {
    let mut linked = 0;
    for (bucket, first) in records.buckets.iter().enumerate() {
        let mut at = *first;
        while at != NONE {
            let record = records.get(at as usize).expect("a chain leads to records");
            assert_eq!(records.bucket_of(records.hash_of(record)), Some(bucket));
            linked += 1;
            assert!(linked <= records.len(), "a circle");
            at = record.next;
        }
    }
    assert_eq!(linked, records.len());
}

#[test]
fn agrees_with_a_map() {
    for (seed, numbers) in [(1, 20), (2, 300), (3, 5000)] {
        let mut records = Records::new(SEED);
        let mut model = BTreeMap::new();
        let mut state = seed;
        for step in 0..20_000 {
            // Waves: the table grows and shrinks.
            let grows = (step / 4000) % 2 == 0;
            let page = page(next(&mut state) % numbers);
            let hash = hash::hash(SEED, &page);
            let found = records.find(hash, &page);
            assert_eq!(found.is_some(), model.contains_key(&page));
            let adds = next(&mut state) % 10 < if grows { 7 } else { 3 };
            match found {
                None if adds => {
                    let at = records.push(hash, &page);
                    let reported = (step % 0xf) as u8;
                    let pending = Pending::NONE.after(Events(reported), Mask::ADDED, false);
                    records.get_mut(at).expect("pushed").pending[3] = pending;
                    model.insert(page, pending);
                }
                Some(at) if !adds => {
                    assert_eq!(records.get(at).expect("found").pending[3], model[&page]);
                    records.remove(at);
                    model.remove(&page);
                }
                _ => {}
            }
            assert_eq!(records.len(), model.len());
            if step % 500 == 0 {
                assert_linked(&records);
            }
        }
        assert_linked(&records);
        while !model.is_empty() {
            let at = next(&mut state) as usize % records.len();
            model.remove(&records.get(at).expect("dense").page());
            records.remove(at);
        }
        assert!(
            records.memory_bytes() < 3 * 2000,
            "memory goes with records"
        );
    }
}

#[test]
fn a_record_takes_at_most_64_bytes() {
    let mut records = Records::new(SEED);
    let bytes_max = |records: &Records| 64 * records.len() + 2 * 56 * BLOCK + 1000;
    for n in 0..100_000 {
        records.push(hash::hash(SEED, &page(n)), &page(n));
        assert!(records.memory_bytes() <= bytes_max(&records), "{n} growing");
    }
    while records.len() > 0 {
        records.remove(records.len() / 3);
        assert!(records.memory_bytes() <= bytes_max(&records), "shrinking");
    }
}
