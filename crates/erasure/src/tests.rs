use super::{Encoder, Kernel};
use reed_solomon_simd::ReedSolomonEncoder;

fn shards(count: usize, bytes: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut state = seed;
    let mut byte = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) as u8
    };
    (0..count)
        .map(|_| (0..bytes).map(|_| byte()).collect())
        .collect()
}

fn by_the_library(data: &[Vec<u8>], parity: usize) -> Vec<u8> {
    let mut encoder = ReedSolomonEncoder::new(data.len(), parity, data[0].len()).expect("a shape");
    for shard in data {
        encoder.add_original_shard(shard).expect("a shard");
    }
    let coded = encoder.encode().expect("all shards");
    coded.recovery_iter().flatten().copied().collect()
}

#[test]
fn parity_is_what_the_library_computes() {
    if Kernel::all().next().is_none() {
        eprintln!("skipped: no code for this processor");
    }
    let counts = (1..40).chain([63, 64, 65, 100, 195, 196, 255, 256, 257, 399, 1000]);
    let shapes = counts.flat_map(|count| [(count, 2), (count, 3), (count, 4)]);
    for (count, parity) in shapes.chain([(1 << 13, 4)]) {
        for kernel in Kernel::all() {
            let Some(encoder) = Encoder::with(kernel, count, parity, 192) else {
                let is_others = count == 1 || count < parity || (count, parity) == (4, 3);
                assert!(is_others, "no code for {count} and {parity}");
                continue;
            };
            let data = shards(count, 192, count as u64);
            let found = encoder.encode(&mut |n| &data[n]);
            let wanted = by_the_library(&data, parity);
            assert!(found == wanted, "{count} and {parity}");
        }
    }
}

#[test]
fn zeroes_follow_where_a_shard_is_short() {
    let Some(encoder) = Encoder::new(5, 2, 128) else {
        return;
    };
    let mut data = shards(5, 128, 3);
    let whole = data[3].clone();
    for bytes in [0, 64, 127, 128] {
        data[3].fill(0);
        data[3][..bytes].copy_from_slice(&whole[..bytes]);
        let mut asked = Vec::new();
        let found = encoder.encode(&mut |n| {
            asked.push(n);
            if n == 3 { &whole[..bytes] } else { &data[n] }
        });
        assert_eq!(asked, [0, 1, 2, 3, 4]);
        assert!(found == by_the_library(&data, 2), "{bytes}");
    }
}

#[test]
fn the_library_is_left_what_there_is_no_code_for() {
    for (count, parity, bytes) in [
        (200, 1, 64),
        (200, 5, 64),
        (1, 2, 64),
        (4, 3, 64),
        (200, 4, 32),
        (200, 4, 0),
        (8193, 4, 64),
    ] {
        assert!(Encoder::new(count, parity, bytes).is_none());
    }
}
