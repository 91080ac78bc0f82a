//! Prepares the multiplication factors of the code for the kernels.
//!
//! A factor is stored as its products with every bit of an element. The encoder calls this.
//! Invariant: the factors equal the library's (`engine::tables`). Only those that occur are
//! computed.

use super::{STEP, TOGETHER, Width};
use reed_solomon_simd::engine::{GF_MODULUS, GfElement, tables};

/// Limit on data shards. No caller uses more.
const DATA_MAX: usize = 1 << 13;

/// Products with `1 << n`, for all n. They suffice because multiplication by a constant is linear.
#[derive(Clone, Copy, Default)]
pub struct Factor(pub [u16; 16]);

/// Factors of one transform: for the pairs (0, 1), (both), (2, 3).
pub type Triple = [Factor; 3];

/// Factors that encode one shape.
pub struct Factors {
    pub width: Width,
    pub data_count: usize,
    /// Factors for every `STEP` data shards.
    pub steps: Vec<[Triple; 2]>,
    /// Factors for the transform back.
    pub last: Triple,
}

impl Factors {
    /// Computes the factors. `None` when there are too many data shards.
    pub fn new(width: Width, data_count: usize) -> Option<Self> {
        if data_count > DATA_MAX {
            return None;
        }
        let skew = tables::get_skew();
        let at = |n: usize| skew.get(n).copied().map_or(Factor::default(), Factor::new);
        // The numbers are those of the library's `ifft` and `fft`.
        let triple = |start: usize| match width {
            Width::Two => [at(start + 2), Factor::default(), at(start + 4)],
            Width::Four => [at(start + 4), at(start + 5), at(start + 6)],
        };
        let pair = |start: usize| [triple(start), triple(start + TOGETHER)];
        Some(Self {
            width,
            data_count,
            steps: (0..data_count).step_by(STEP).map(pair).collect(),
            last: [at(0), at(1), at(2)],
        })
    }
}

impl Factor {
    /// Computes a factor from its logarithm. The logarithm of zero is the modulus.
    fn new(log: GfElement) -> Self {
        let logs = tables::get_exp_log();
        let product = |n: u32| match log == GF_MODULUS {
            true => 0,
            false => tables::mul(1 << n, log, &logs.exp, &logs.log),
        };
        Self([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15].map(product))
    }
}
