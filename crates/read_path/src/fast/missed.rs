//! Remembers which recipe nodes were missed of late, so that the fast tier gets those that are
//! missed again. A pass over a recipe that nobody repeats writes nothing to flash. `fast` calls
//! this.
//!
//! Invariant: memory is fixed, and there is no lock. A node is forgotten when another one needs its
//! slot; a wrong answer, one in 2^51, admits a node early.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use units::Fingerprint;

/// Number of misses that are remembered, 8 bytes each. Each stands for a region of nodes: some
/// thousand of them are recipes of terabytes.
const SLOTS: usize = 8192;
/// A slot without a miss.
const EMPTY: u64 = 0;

/// See the module's head.
pub(super) struct MissedNodes(Box<[AtomicU64]>);

impl Default for MissedNodes {
    fn default() -> Self {
        Self((0..SLOTS).map(|_| AtomicU64::new(EMPTY)).collect())
    }
}

impl MissedNodes {
    /// Returns true if the node was missed before, and forgets that: it is about to be in the tier.
    /// Remembers the miss otherwise.
    pub fn was_missed(&self, fingerprint: &Fingerprint) -> bool {
        let bits = fingerprint.bucket_bits().max(EMPTY + 1);
        let Some(slot) = self.0.get(bits as usize % SLOTS) else {
            return false;
        };
        let is_second = slot.load(Relaxed) == bits;
        slot.store(if is_second { EMPTY } else { bits }, Relaxed);
        is_second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(n: u64) -> Fingerprint {
        let mut bytes = [7; 32];
        bytes
            .iter_mut()
            .zip(noise(n))
            .for_each(|(byte, of_n)| *byte = of_n);
        Fingerprint(bytes)
    }

    /// Bytes that depend on all bits of a number.
    fn noise(n: u64) -> [u8; 32] {
        let mut bytes = [0; 32];
        media::Random::fill(&media::SeededRandom::new(n), &mut bytes);
        bytes
    }

    #[test]
    fn the_second_miss_counts_and_is_forgotten() {
        let missed = MissedNodes::default();
        let found = [1, 1, 1, 2, 1].map(|n| missed.was_missed(&name(n)));
        assert_eq!(found, [false, true, false, false, true]);
    }

    #[test]
    fn old_misses_make_way() {
        let missed = MissedNodes::default();
        let count = SLOTS as u64 * 20;
        let seconds = (0..count).filter(|n| missed.was_missed(&name(*n)));
        assert_eq!(seconds.count(), 0);
        let recent = (count - SLOTS as u64 / 4..count).rev();
        let recent = recent.filter(|n| missed.was_missed(&name(*n))).count();
        assert!(recent > SLOTS / 4 * 8 / 10, "{recent}");
        let old = (0..SLOTS as u64 / 4).filter(|n| missed.was_missed(&name(*n)));
        assert_eq!(old.count(), 0);
    }
}
