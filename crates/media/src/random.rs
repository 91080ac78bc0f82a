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
        let mut mixed = blake3::Hasher::new_keyed(&drawn);
        for clock in [ClockId::Realtime, ClockId::Boottime] {
            let now = clock_gettime(clock);
            mixed.update(&now.tv_sec.to_le_bytes());
            mixed.update(&now.tv_nsec.to_le_bytes());
        }
        mixed.update(&DRAWS.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        mixed.finalize_xof().fill(into);
    }
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
