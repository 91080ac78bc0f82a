//! The factors of the code, each as what it makes of every half byte: vector instructions look
//! products up in such tables of 16.
//!
//! Invariant: they are the library's (`engine::tables`), those that occur only. Called by the encoder.

use super::{STEP, Width};
use reed_solomon_simd::engine::{GF_MODULUS, GfElement, tables};

/// More data shards are nobody's.
const DATA_MAX: usize = 1 << 13;

/// Products of one factor with `0..16`, shifted by 0, 4, 8 and 12 bits: their low and high bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Factor {
    pub low: [[u8; 16]; 4],
    pub high: [[u8; 16]; 4],
}

/// What a shape needs.
pub struct Factors {
    pub width: Width,
    pub data_count: usize,
    /// For every `STEP` data shards.
    pub steps: Vec<[Factor; 3]>,
    /// For the transform back.
    pub last: [Factor; 3],
}

impl Factors {
    /// `None` when there are too many data shards.
    pub fn new(width: Width, data_count: usize) -> Option<Self> {
        if data_count > DATA_MAX {
            return None;
        }
        let skew = tables::get_skew();
        let at = |n: usize| skew.get(n).copied().map_or(Factor::ZERO, Factor::new);
        // Numbers as in the library's `ifft` and `fft`: of the pairs (0, 1), (both), (2, 3).
        let factors = |start: usize| match width {
            Width::Two => [at(start + 2), Factor::ZERO, at(start + 4)],
            Width::Four => [at(start + 4), at(start + 5), at(start + 6)],
        };
        Some(Self {
            width,
            data_count,
            steps: (0..data_count).step_by(STEP).map(factors).collect(),
            last: [at(0), at(1), at(2)],
        })
    }
}

impl Factor {
    const ZERO: Self = Self {
        low: [[0; 16]; 4],
        high: [[0; 16]; 4],
    };

    /// From its logarithm. That of zero is the modulus.
    fn new(log: GfElement) -> Self {
        let mut factor = Self::ZERO;
        if log == GF_MODULUS {
            return factor;
        }
        let logs = tables::get_exp_log();
        let tables = factor.low.iter_mut().zip(&mut factor.high);
        for (quarter, (low, high)) in tables.enumerate() {
            for (x, (low, high)) in low.iter_mut().zip(high).enumerate() {
                let element = (x << (4 * quarter)) as GfElement;
                [*low, *high] = tables::mul(element, log, &logs.exp, &logs.log).to_le_bytes();
            }
        }
        factor
    }
}
