//! Published loads: which ranges are read.
//!
//! The runs call this.
//! Invariant: the same seed gives the same reads.

use fragpicker::TracedRequest;
use sim::Seed;

const KIB: u64 = 1 << 10;

/// A way of reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// Reads of 128 KiB, one after another.
    Sequential,
    /// Reads of 128 KiB with gaps of 288 KiB.
    Stride,
    /// Reads of 16 KiB with skewed places (Zipf, 0.99), like YCSB's workload C.
    Zipfian,
}

impl Load {
    /// Returns the reads of a file of this size.
    pub fn reads(self, bytes: u64, seed: u64) -> Vec<TracedRequest> {
        match self {
            Self::Sequential => every(bytes, 128 * KIB),
            Self::Stride => every(bytes, (128 + 288) * KIB),
            Self::Zipfian => zipfian(bytes, seed),
        }
    }
}

fn direct(offset: u64, len: u64) -> TracedRequest {
    TracedRequest {
        object: 1,
        offset,
        len,
        is_direct: true,
        is_write: false,
    }
}

fn every(bytes: u64, step: u64) -> Vec<TracedRequest> {
    let starts = (0..bytes / step + 1).map(|nth| nth * step);
    let fits = |start: &u64| start + 128 * KIB <= bytes;
    starts
        .take_while(fits)
        .map(|start| direct(start, 128 * KIB))
        .collect()
}

/// Rank `r` is read in proportion to `1 / r^0.99`, which is `1 / r` times `r^0.01`. Over a million
/// ranks that factor is at most 1.15. It is omitted, because powers differ between machines in the
/// last bit.
fn zipfian(bytes: u64, seed: u64) -> Vec<TracedRequest> {
    let places = (bytes / (16 * KIB)).max(1);
    let mut order: Vec<u64> = (0..places).collect();
    let mut seed = Seed::new(seed);
    seed.shuffle(&mut order);
    let mut sums: Vec<f64> = Vec::with_capacity(order.len());
    let mut sum = 0.0;
    for rank in 1..=places {
        sum += 1.0 / rank as f64;
        sums.push(sum);
    }
    let one = |_| {
        let drawn = (seed.draw() >> 11) as f64 / (1u64 << 53) as f64 * sum;
        let rank = sums.partition_point(|sum| *sum < drawn);
        let place = order.get(rank).copied().unwrap_or(0);
        direct(place * 16 * KIB, 16 * KIB)
    };
    (0..places * 4).map(one).collect()
}
