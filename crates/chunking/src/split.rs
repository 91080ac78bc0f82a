//! Splits content by MinCDC over hashed four-byte windows (crate `mincdc`). The store's lanes and
//! `archive` call this.
//!
//! A chunk ends where the hash of the four bytes before the cut is smallest, among all cuts that
//! leave between half and one and a half times the average.
//!
//! Invariant: boundaries are part of the format. The version of the crate is pinned, and the golden
//! vectors below freeze the boundaries.

use mincdc::{Cdc, MinCdcHash4};

/// Number of this splitter in the pool's config.
pub const SPLITTER_NUMBER: u8 = 1;

/// Cuts bytes at places that their content determines.
#[derive(Clone, Copy, Debug)]
pub struct Splitter {
    min: usize,
    max: usize,
}

impl Splitter {
    /// Cuts chunks of about `average` bytes (at least 64): between half and one and a half times
    /// the average.
    pub fn new(average: usize) -> Self {
        let average = average.max(64);
        Self {
            min: average / 2,
            max: average / 2 * 3,
        }
    }

    /// Returns the size of the largest chunk, bytes. Give [`Splitter::next_len`] as much unless the
    /// object ends.
    pub fn max_bytes(&self) -> usize {
        self.max
    }

    /// Returns the length of the first chunk in `bytes`: all of them when they are no more than the
    /// minimum, 0 only when they are empty.
    pub fn next_len(&self, bytes: &[u8]) -> usize {
        let cdc = MinCdcHash4::new();
        let skipped = self.min - cdc.window_size();
        match bytes.get(skipped..bytes.len().min(self.max)) {
            Some(window) if bytes.len() > self.min => skipped + cdc.best_splitpoint(window),
            _ => bytes.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(len: usize) -> Vec<u8> {
        let mut state = 88172645463325252u64;
        (0..len)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 32) as u8
            })
            .collect()
    }

    fn cuts(splitter: Splitter, mut bytes: &[u8]) -> Vec<usize> {
        let mut cuts = Vec::new();
        while !bytes.is_empty() {
            let len = splitter.next_len(bytes);
            assert!(len > 0 && len <= splitter.max_bytes());
            cuts.push(len);
            bytes = &bytes[len..];
        }
        cuts
    }

    #[test]
    fn golden_boundaries_never_change() {
        let bytes = noise(300_000);
        assert_eq!(
            cuts(Splitter::new(32 << 10), &bytes),
            GOLDEN,
            "boundaries are part of the format"
        );
    }

    const GOLDEN: &[usize] = &[
        42601, 33915, 45954, 42622, 43618, 25061, 25592, 27511, 13126,
    ];

    #[test]
    fn an_insertion_moves_few_boundaries() {
        let splitter = Splitter::new(4096);
        let bytes = noise(1 << 20);
        let mut changed = bytes.clone();
        changed.splice(100_000..100_000, [1, 2, 3]);
        let ends = |bytes: &[u8]| -> std::collections::BTreeSet<usize> {
            let mut at = bytes.len();
            cuts(splitter, bytes)
                .iter()
                .map(|len| {
                    at -= len;
                    at
                })
                .collect()
        };
        let (a, b) = (ends(&bytes), ends(&changed));
        assert!(a.intersection(&b).count() > a.len() * 8 / 10);
    }
}
