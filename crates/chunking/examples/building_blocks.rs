//! Measures each building block alone, on one core and over a real file, in MB/s of plain bytes.
//! Computes the limit that they imply for a whole backup.
//!
//! Run `cargo run --release -p chunking --example building_blocks -- FILE [ROUNDS]`.
//! It prints one JSON object. `bench/` calls this.

use chunking::{
    Compression, Compressor, Decompressor, FingerprintKey, SealKey, Splitter, is_zero, x86_branches,
};
use std::hint::black_box;
use std::time::Instant;

const CHUNK: usize = 16 << 10;
const REGION: usize = 1536 << 10;

/// Returns the best of `rounds`, in seconds.
fn best(rounds: usize, mut work: impl FnMut()) -> f64 {
    (0..rounds)
        .map(|_| {
            let started = Instant::now();
            work();
            started.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min)
}

#[expect(clippy::too_many_lines, reason = "one script")]
fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments
        .next()
        .expect("usage: building_blocks FILE [ROUNDS]");
    let rounds = arguments
        .next()
        .map_or(3, |n| n.parse().expect("a number of rounds"));
    let all = std::fs::read(&path).expect("a readable file");
    // The blocks work on the bytes that are not zero. Every eighth region stands for all.
    let mut data: Vec<u8> = Vec::new();
    for (number, region) in all.chunks(REGION).enumerate() {
        if number % 8 == 0 {
            region
                .chunks(CHUNK)
                .filter(|c| !is_zero(c))
                .for_each(|c| data.extend_from_slice(c));
        }
    }
    drop(all);
    let megabytes = data.len() as f64 / 1e6;
    let mut rows: Vec<(&str, f64)> = Vec::new();
    let mut row = |name, seconds: f64| rows.push((name, megabytes / seconds));

    row(
        "zero_test",
        best(rounds, || {
            black_box(data.chunks(CHUNK).filter(|c| is_zero(c)).count());
        }),
    );
    let splitter = Splitter::new(32 << 10);
    row(
        "split",
        best(rounds, || {
            let mut rest = data.as_slice();
            while !rest.is_empty() {
                rest = rest.split_at(splitter.next_len(rest)).1;
            }
        }),
    );
    let key = FingerprintKey::new([7; 32]);
    row(
        "fingerprint",
        best(rounds, || {
            for chunk in data.chunks(CHUNK) {
                black_box(key.fingerprint(chunk));
            }
        }),
    );
    row(
        "x86_detect",
        best(rounds, || {
            black_box(
                data.chunks(REGION)
                    .filter(|r| x86_branches::pays(r))
                    .count(),
            );
        }),
    );
    let mut stored_default = Vec::new();
    let mut ratio = 0.0;
    for (name, with, filtering) in [
        ("lz4", Compression::Lz4, false),
        ("zstd_1", Compression::Zstd(1), false),
        ("zstd_default_unfiltered", Compression::Default, false),
        ("zstd_default", Compression::Default, true),
        ("zstd_3", Compression::Zstd(3), false),
    ] {
        let mut compressor = Compressor::new(with, filtering).expect("a known compression");
        let mut out = Vec::with_capacity(REGION + 1024);
        let mut raw = Vec::with_capacity(REGION);
        let mut total = 0;
        let seconds = best(rounds, || {
            total = 0;
            if name == "zstd_default" {
                stored_default.clear();
            }
            for region in data.chunks(REGION) {
                out.clear();
                raw.clear();
                raw.extend_from_slice(region);
                let packed = compressor.compress(&mut raw, &mut out);
                if packed.is_none() {
                    out.extend_from_slice(region);
                }
                total += out.len();
                if name == "zstd_default" {
                    stored_default.push((packed, out.clone()));
                }
            }
        });
        row(name, seconds);
        ratio = match with {
            Compression::Default => total as f64 / data.len() as f64,
            _ => ratio,
        };
    }
    let mut decompressor = Decompressor::new().expect("memory");
    let mut memory = Vec::new();
    let mut unpack_all = || {
        for ((packed, stored), region) in stored_default.iter().zip(data.chunks(REGION)) {
            if let Some(packed) = packed {
                let warm = std::mem::take(&mut memory);
                let raw = decompressor.unpack(*packed, stored, region.len(), warm);
                memory = black_box(raw.expect("our own bytes"));
            }
        }
    };
    row("unzstd_default", best(rounds, &mut unpack_all));
    row(
        "x86_filter_and_back",
        best(rounds, || {
            for region in data.chunks_mut(REGION).filter(|r| x86_branches::pays(r)) {
                x86_branches::absolute(region);
                black_box(x86_branches::relative(region));
            }
        }),
    );
    let seal = SealKey::new(&[9; 32]);
    let mut region = data
        .get(..REGION.min(data.len()))
        .unwrap_or_default()
        .to_vec();
    let regions = data.len() / region.len().max(1);
    row(
        "seal",
        best(rounds, || {
            for number in 0..regions {
                let mut nonce = [0; 12];
                nonce[..8].copy_from_slice(&(number as u64).to_le_bytes());
                seal.seal(nonce, b"bound", &mut region, 0);
                region.truncate(REGION);
            }
        }),
    );
    // Every byte is tested, fingerprinted and compressed. Only the compressed bytes are sealed.
    let per = |name: &str| {
        rows.iter()
            .find(|(n, _)| *n == name)
            .map_or(0.0, |(_, speed)| 1.0 / speed)
    };
    let common = per("fingerprint") + ratio * per("seal");
    let numbers: Vec<_> = rows
        .iter()
        .map(|(n, speed)| format!("\"{n}\":{speed:.0}"))
        .collect();
    println!(
        "{{\"megabytes\":{megabytes:.0},{},\"ratio_default\":{ratio:.4},\"limit_image_one_core\":{:.0},\
         \"limit_tree_one_core\":{:.0}}}",
        numbers.join(","),
        1.0 / (common + per("zstd_default")),
        1.0 / (common + per("split") + per("zstd_default")),
    );
}
