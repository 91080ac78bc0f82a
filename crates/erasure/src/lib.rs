//! Encodes a few parity shards for many data shards. `format::parity` calls this.
//!
//! The code is that of `reed-solomon-simd` 3 (Leopard-RS over GF(2^16)), byte for byte. Its cost is
//! memory reads, not arithmetic.
//!
//! Invariant: the output equals the library's. `None` means that this crate has no code for the
//! processor or the counts; the caller then uses the library.
//!
//! The library copies every shard into its own working memory, passes over that several times, and
//! first fills tables of 8 MiB. This crate reads data once, in place. Its only tables are those of
//! the factors that occur.

mod factors;
mod kernel;

use factors::Factors;
use kernel::Kernel;

/// Length of the code's vectors, bytes: 32 elements, low bytes first, then high bytes.
const BLOCK_BYTES: usize = 64;
/// Shards that one transform takes.
const TOGETHER: usize = 4;
/// Shards that one step adds to the sums. It takes two transforms because each step reads and
/// writes the sums once.
const STEP: usize = 2 * TOGETHER;

type Block = [u8; BLOCK_BYTES];
/// Input of one step.
type Shards<'a> = [[&'a [Block]; TOGETHER]; 2];
/// Sums that the steps add to.
type Sums<'a> = [&'a mut [Block]; TOGETHER];

/// Number of parity shards that are computed at once, rounded up: the shape of the transform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    Two,
    Four,
}

/// Encodes groups of one shape.
pub struct Encoder {
    kernel: Kernel,
    factors: Factors,
    parity_count: usize,
    shard_bytes: usize,
}

impl Encoder {
    /// Prepares for groups of `data_count` data shards and `parity_count` parity shards of
    /// `shard_bytes` each. `None` when only the library can encode this shape.
    pub fn new(data_count: usize, parity_count: usize, shard_bytes: usize) -> Option<Self> {
        let kernel = Kernel::all().next()?;
        Self::with(kernel, data_count, parity_count, shard_bytes)
    }

    fn with(
        kernel: Kernel,
        data_count: usize,
        parity_count: usize,
        shard_bytes: usize,
    ) -> Option<Self> {
        let width = match parity_count {
            2 => Width::Two,
            3 | 4 => Width::Four,
            _ => return None,
        };
        let is_whole = shard_bytes > 0 && shard_bytes.is_multiple_of(BLOCK_BYTES);
        if !is_whole || !is_high_rate(data_count, parity_count) {
            return None;
        }
        Some(Self {
            kernel,
            factors: Factors::new(width, data_count)?,
            parity_count,
            shard_bytes,
        })
    }

    /// Returns the parity shards of one group, one after another.
    ///
    /// Calls `shard` once for each data shard, in order of their numbers. A short shard is padded
    /// with zeroes.
    pub fn encode<'d>(&self, shard: &mut dyn FnMut(usize) -> &'d [u8]) -> Vec<u8> {
        let blocks = self.shard_bytes / BLOCK_BYTES;
        let mut parity = vec![0; TOGETHER * self.shard_bytes];
        let (all, _) = parity.as_chunks_mut();
        let (first, second) = all.split_at_mut(2 * blocks);
        let (sum0, sum1) = first.split_at_mut(blocks);
        let (sum2, sum3) = second.split_at_mut(blocks);
        let mut sums: Sums = [sum0, sum1, sum2, sum3];
        let width = self.factors.width;
        for (step, factors) in self.factors.steps.iter().enumerate() {
            let numbers = step * STEP..(step * STEP + STEP).min(self.factors.data_count);
            let mut given = [&[][..]; STEP];
            for (place, number) in given.iter_mut().zip(numbers) {
                *place = shard(number);
            }
            let is_whole = |shard: &&[u8]| shard.len() == self.shard_bytes;
            if given.iter().all(is_whole) {
                self.kernel.add(width, factors, blocks_of(given), &mut sums);
            } else {
                let filled = given.map(|shard| self.filled(shard));
                let given = filled.each_ref().map(Vec::as_slice);
                self.kernel.add(width, factors, blocks_of(given), &mut sums);
            }
        }
        self.kernel.finish(width, &self.factors.last, &mut sums);
        parity.truncate(self.parity_count * self.shard_bytes);
        parity
    }

    /// Pads a shard with zeroes.
    fn filled(&self, shard: &[u8]) -> Vec<u8> {
        let mut filled = shard.to_vec();
        filled.resize(self.shard_bytes, 0);
        filled
    }
}

/// Returns true for counts that the library encodes at high rate. It encodes few data shards
/// differently, and that choice is part of the code.
fn is_high_rate(data_count: usize, parity_count: usize) -> bool {
    let (data, parity) = (
        data_count.next_power_of_two(),
        parity_count.next_power_of_two(),
    );
    data > parity || (data == parity && data_count <= parity_count)
}

fn blocks_of(shards: [&[u8]; STEP]) -> Shards<'_> {
    let [a, b, c, d, e, f, g, h] = shards.map(|shard| shard.as_chunks().0);
    [[a, b, c, d], [e, f, g, h]]
}

#[cfg(test)]
mod tests;
