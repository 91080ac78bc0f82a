//! Random decisions from a seed (SplitMix64), and the mixing of hashes. Crash plans, the explorer
//! and scenarios use them.
//!
//! Invariant: the same seed gives the same decisions on every machine.

/// A stream of decisions.
#[derive(Clone, Debug)]
pub struct Seed(u64);

impl Seed {
    /// Creates the stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns an independent stream for the `number`-th part of the work.
    pub fn part(&self, number: u64) -> Self {
        Self(mix(self.0, number))
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        finish(self.0)
    }

    /// A number below `limit`; 0 if `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.draw().checked_rem(limit).unwrap_or(0)
    }

    /// True `per_256` times out of 256.
    pub fn chance(&mut self, per_256: u64) -> bool {
        self.draw() & 0xff < per_256
    }

    /// Shuffles `items`.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// Mixes `value` into `hash`; the order matters.
pub(crate) fn mix(hash: u64, value: u64) -> u64 {
    finish(hash.rotate_left(23) ^ value.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn finish(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
