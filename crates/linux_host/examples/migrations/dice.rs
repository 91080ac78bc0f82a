//! Numbers that only look random. All of the example uses them.
//!
//! Invariant: the same seed gives the same numbers.

/// A xorshift generator.
pub struct Dice(u64);

impl Dice {
    /// Begins with a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 3) % end.max(1)
    }
}
