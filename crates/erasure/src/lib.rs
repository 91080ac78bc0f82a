//! Encodes a few parity shards for many data shards: the code of `reed-solomon-simd` 3 (Leopard-RS over
//! GF(2^16)), byte for byte, where the memory that is read is the price and not the arithmetic.
//!
//! Invariant: what comes out is what the library computes; `None` where this room has no code for the
//! processor or the counts, and the caller asks the library. The library copies every shard into
//! working memory of its own, goes over that several times, and first fills tables of 8 MiB. Here data
//! are read once and where they are, and there are no tables but of the factors that occur.
//! Called by `format::parity`.

mod factors;
mod kernel;

use factors::Factors;
use kernel::Kernel;

/// Vectors of the code are this long, bytes: 32 elements, low bytes first, then high bytes.
const BLOCK_BYTES: usize = 64;
/// Shards that the transform takes together.
const TOGETHER: usize = 4;
/// Shards that are added to the sums at a time: two transforms, as sums are read and written each time.
const STEP: usize = 2 * TOGETHER;

type Block = [u8; BLOCK_BYTES];
/// What is encoded in one step.
type Shards<'a> = [[&'a [Block]; TOGETHER]; 2];
/// What the steps add up.
type Sums<'a> = [&'a mut [Block]; TOGETHER];

/// How many shards of parity are computed at once, rounded up: the shape of the transform.
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
    /// For groups of `data_count` data shards and `parity_count` parity shards of `shard_bytes` each.
    /// `None`: the library has to do it.
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

    /// The parity shards of one group, one behind the other. `shard` gives data shards by number, and
    /// is asked for each once, in order; where one is short, zeroes follow.
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

    /// A shard and the zeroes that it lacks.
    fn filled(&self, shard: &[u8]) -> Vec<u8> {
        let mut filled = shard.to_vec();
        filled.resize(self.shard_bytes, 0);
        filled
    }
}

/// The library codes few data shards in another way: its choice, which is part of the code.
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
