//! Defines sources of randomness, which other code takes as an argument. The store calls this.
//!
//! Invariant: keys are drawn only from [`SystemRandom`] outside of simulations.

use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicU64, Ordering};

/// A source of random bytes for keys, salts and identifiers.
pub trait Random: Send + Sync {
    /// Fills `into`.
    fn fill(&self, into: &mut [u8]);
}

/// The system's generator, called anew each time. It keeps no state that a copy of this process (a
/// virtual machine that was resumed twice) would share.
///
/// It mixes the kernel's output with the clocks and a count. That costs nothing where the kernel's
/// generator is good. It separates two copies whose kernel does not know yet that it was copied.
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, into: &mut [u8]) {
        let mut drawn = [0; 32];
        // No key is safe without randomness, so there is no sensible way to continue.
        getrandom::fill(&mut drawn).expect("the system has no source of randomness");
        let clocks = [ClockId::Realtime, ClockId::Boottime].map(clock_gettime);
        let [real, boot] = clocks.map(|now| [now.tv_sec, now.tv_nsec]);
        mix(
            &drawn,
            [real, boot],
            DRAWS.fetch_add(1, Ordering::Relaxed),
            into,
        );
    }
}

/// Fills `into` with what follows from all of the others. `clocks`: seconds and nanoseconds.
fn mix(drawn: &[u8; 32], clocks: [[i64; 2]; 2], draws: u64, into: &mut [u8]) {
    let mut mixed = blake3::Hasher::new_keyed(drawn);
    for number in clocks.as_flattened() {
        mixed.update(&number.to_le_bytes());
    }
    mixed.update(&draws.to_le_bytes());
    mixed.finalize_xof().fill(into);
}

static DRAWS: AtomicU64 = AtomicU64::new(0);

/// A seeded generator (SplitMix64) for the simulator. Never for keys that protect anything.
pub struct SeededRandom(Mutex<u64>);

impl SeededRandom {
    /// Makes a generator. The same seed gives the same bytes.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }
}

impl Random for SeededRandom {
    fn fill(&self, into: &mut [u8]) {
        let mut state = self.0.lock();
        for piece in into.chunks_mut(8) {
            *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = *state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^= z >> 31;
            for (to, from) in piece.iter_mut().zip(z.to_le_bytes()) {
                *to = from;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_a_machine_draw_different_bytes_if_a_clock_differs() {
        let drawn = |kernel: u8, clocks, draws| {
            let mut bytes = [0; 32];
            mix(&[kernel; 32], clocks, draws, &mut bytes);
            bytes
        };
        let first = drawn(1, [[5, 6], [7, 8]], 9);
        assert_eq!(drawn(1, [[5, 6], [7, 8]], 9), first, "nothing differs");
        for clocks in [[[5, 5], [7, 8]], [[5, 6], [7, 9]], [[4, 6], [7, 8]]] {
            assert_ne!(drawn(1, clocks, 9), first);
        }
        assert_ne!(drawn(2, [[5, 6], [7, 8]], 9), first, "the kernel noticed");
        assert_ne!(drawn(1, [[5, 6], [7, 8]], 10), first, "a later draw");
    }
}
