use super::*;

fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    crate::hash::mix(*seed)
}

fn sample(part_bits: u32, seed: u64) -> TaskProgress {
    sample_of(part_bits, seed, [9000, 7, 0])
}

fn sample_of(part_bits: u32, seed: u64, works: [usize; 3]) -> TaskProgress {
    let mut progress = TaskProgress::new(part_bits);
    let mut state = seed;
    let sets = [
        &mut progress.done,
        &mut progress.failed,
        &mut progress.again,
    ];
    for (set, count) in sets.into_iter().zip(works) {
        for _ in 0..count {
            let object = next(&mut state) % 9000;
            let part = (next(&mut state) % 3) & ((1 << part_bits) - 1);
            set.insert(Work { object, part });
        }
    }
    progress.done.insert(Work {
        object: u64::MAX,
        part: (1 << part_bits) - 1,
    });
    progress.position = seed
        .is_multiple_of(2)
        .then_some(Work { object: 7, part: 1 });
    progress.counts.bytes_read = next(&mut state);
    progress
}

#[test]
fn comes_back_as_it_was() {
    for part_bits in [0, 2, PART_BITS_MAX] {
        for seed in 0..4 {
            let progress = sample(part_bits, seed);
            let bytes = progress.encode(seed);
            let read = TaskProgress::decode(&bytes, seed).expect("written so");
            assert_eq!(read.position, progress.position);
            assert_eq!(read.counts, progress.counts);
            let sets = |p: &TaskProgress| [p.done.ranges(), p.failed.ranges(), p.again.ranges()];
            assert_eq!(sets(&read), sets(&progress));
            assert_eq!(read.done.len(), progress.done.len());
            assert_eq!(read.encode(seed), bytes, "one form");
        }
    }
}

#[test]
fn other_bytes_are_errors() {
    let bytes = sample_of(2, 3, [100, 7, 1]).encode(9);
    for len in 0..bytes.len() {
        assert!(
            TaskProgress::decode(&bytes[..len], 9).is_err(),
            "{len} bytes"
        );
    }
    let mut state = 5;
    for _ in 0..3000 {
        let mut damaged = bytes.clone();
        let at = next(&mut state) as usize % damaged.len();
        damaged[at] ^= 1 << (next(&mut state) % 8);
        assert!(TaskProgress::decode(&damaged, 9).is_err(), "byte {at}");
    }
    let other = TaskProgress::decode(&bytes, 8).map(|_| ());
    let (expected, found) = (8, 9);
    assert_eq!(other, Err(ProgressError::OtherTask { expected, found }));
    let mut newer = bytes.clone();
    newer[8] = 2;
    let newer = TaskProgress::decode(&newer, 9).map(|_| ());
    assert_eq!(newer, Err(ProgressError::Version(2)));
}

/// With a valid checksum: a decoded progress survives encoding and decoding.
#[test]
fn damage_behind_a_right_checksum_is_an_error_or_another_progress() {
    let bytes = sample_of(2, 3, [4, 2, 1]).encode(9);
    let (mut state, mut read) = (11, 0);
    for _ in 0..5000 {
        let mut damaged = bytes[..bytes.len() - 8].to_vec();
        for _ in 0..1 + next(&mut state) % 3 {
            let at = next(&mut state) as usize % damaged.len();
            damaged[at] = next(&mut state) as u8;
        }
        if let Ok(progress) = TaskProgress::decode(&TaskProgress::seal(damaged), 9) {
            let again = TaskProgress::decode(&progress.encode(9), 9).expect("its own");
            assert_eq!(again.done.ranges(), progress.done.ranges());
            assert_eq!(again.encode(9), progress.encode(9));
            read += 1;
        }
    }
    assert!(read > 100, "{read} of 5000 could be read");
}

/// With a valid checksum: no crafted bytes cause a panic or a large allocation.
#[test]
fn crafted_bytes_do_no_harm() {
    let seal = TaskProgress::seal;
    let empty = TaskProgress::new(PART_BITS_MAX).encode(1);
    let body = &empty[..empty.len() - 8 - 3];
    let mut huge = body.to_vec();
    put(&mut huge, 1);
    put(&mut huge, 0);
    put(&mut huge, (1 << 125) - 1);
    huge.extend([0, 0]);
    let read = TaskProgress::decode(&seal(huge.clone()), 1).expect("a long run");
    assert_eq!(read.done.len(), 1 << 125);
    assert!(read.done.memory_bytes() < 1000);
    huge[10] = 3;
    let read = TaskProgress::decode(&seal(huge), 1).map(|_| ());
    assert_eq!(read, Err(ProgressError::Invalid("run")));
    let mut state = 17;
    for _ in 0..3000 {
        let mut crafted = body.to_vec();
        crafted[10] = (next(&mut state) % 70) as u8;
        crafted[11] = (next(&mut state) % 3) as u8;
        let len = next(&mut state) % 60;
        crafted.extend((0..len).map(|_| next(&mut state) as u8));
        let _ = TaskProgress::decode(&seal(crafted), 1).is_ok();
    }
}
