//! A filter of chunks that were copied forward while their old copies stay. The pool fills it; the
//! chunk map asks it.
//!
//! A chunk that defragmentation has moved has two places, and the directory at hand may be that of
//! the old one. A reader that finds a chunk in an old container asks the index if the filter has
//! the chunk.
//!
//! Invariant: a hint. It only selects which of several good copies is read. At most 32 MiB.

use crate::index::Location;
use format::moved::{BLOCK_WORDS, BLOCKS_MAX, MovedRecord};
use parking_lot::RwLock;
use std::cmp::Reverse;
use std::sync::atomic::{AtomicBool, Ordering};
use units::{ContainerId, Fingerprint, WriterId};

/// Writers of copies that were made forward: garbage collection and defragmentation. Their copies
/// are preferred.
pub const FORWARD_WRITERS: [WriterId; 2] = [WriterId(4), WriterId(5)];
/// Number of bits of a chunk in its block.
const BITS: u32 = 6;
/// Maximum number of chunks in a block: ten bits each.
const BLOCK_CHUNKS: u64 = 51;
const BLOCKS_FIRST: usize = 64;

#[derive(Default)]
struct Filter {
    entries: u64,
    words: Vec<u64>,
}

/// See the module's head.
#[derive(Default)]
pub struct Moved {
    /// False while the filter is empty: nearly every lookup needs only this.
    is_used: AtomicBool,
    filter: RwLock<Filter>,
}

impl Moved {
    /// Returns true if a chunk that was found in this container may have a preferred copy.
    pub fn is_elsewhere(&self, container: ContainerId, fingerprint: &Fingerprint) -> bool {
        self.is_used.load(Ordering::Acquire)
            && !is_forward(container)
            && self.filter.read().holds(fingerprint)
    }

    /// Adds chunks. Known chunks are counted again.
    pub fn add<'f>(&self, chunks: impl Iterator<Item = &'f Fingerprint>) {
        let mut filter = self.filter.write();
        if filter.words.is_empty() {
            filter.words = vec![0; BLOCKS_FIRST * BLOCK_WORDS];
        }
        chunks.for_each(|fingerprint| filter.add(fingerprint));
        self.is_used.store(true, Ordering::Release);
    }

    /// Returns true if the filter should be rebuilt with a larger size.
    pub fn is_full(&self) -> bool {
        let filter = self.filter.read();
        let blocks = filter.words.len() / BLOCK_WORDS;
        filter.entries > blocks as u64 * BLOCK_CHUNKS && blocks < BLOCKS_MAX
    }

    /// Empties the filter and sizes it for `chunks` chunks.
    pub fn reset(&self, chunks: u64) {
        let blocks = usize::try_from(chunks.div_ceil(BLOCK_CHUNKS)).unwrap_or(BLOCKS_MAX);
        let blocks = blocks.clamp(BLOCKS_FIRST, BLOCKS_MAX).next_power_of_two();
        *self.filter.write() = Filter {
            entries: 0,
            words: vec![0; blocks * BLOCK_WORDS],
        };
    }

    /// Returns the number of added chunks.
    pub fn entries(&self) -> u64 {
        self.filter.read().entries
    }

    /// Returns the record to store. `sequence`: the filter has the chunks of defragmentation's
    /// containers below this number.
    pub fn record(&self, sequence: u64) -> MovedRecord {
        let filter = self.filter.read();
        MovedRecord {
            sequence,
            entries: filter.entries,
            words: filter.words.clone(),
        }
    }

    /// Loads a stored record.
    pub fn restore(&self, record: MovedRecord) {
        self.is_used
            .store(!record.words.is_empty(), Ordering::Release);
        *self.filter.write() = Filter {
            entries: record.entries,
            words: record.words,
        };
    }
}

impl Filter {
    /// Returns the block of a chunk, and its bits. Fingerprints are uniform, and the index uses
    /// other bytes of them.
    fn place(&self, fingerprint: &Fingerprint) -> (usize, u64) {
        let word = |at: usize| {
            let bytes = fingerprint.0.get(at..).and_then(|f| f.first_chunk());
            u64::from_le_bytes(bytes.copied().unwrap_or_default())
        };
        let blocks = (self.words.len() / BLOCK_WORDS).max(1) as u64;
        ((word(12) & (blocks - 1)) as usize, word(20))
    }

    fn each_bit(bits: u64) -> impl Iterator<Item = (usize, u64)> {
        (0..BITS).map(move |n| {
            let bit = bits >> (9 * n) & 511;
            ((bit / 64) as usize, 1 << (bit % 64))
        })
    }

    fn add(&mut self, fingerprint: &Fingerprint) {
        let (block, bits) = self.place(fingerprint);
        for (word, bit) in Self::each_bit(bits) {
            if let Some(word) = self.words.get_mut(block * BLOCK_WORDS + word) {
                *word |= bit;
            }
        }
        self.entries += 1;
    }

    fn holds(&self, fingerprint: &Fingerprint) -> bool {
        let (block, bits) = self.place(fingerprint);
        Self::each_bit(bits).all(|(word, bit)| {
            let word = self.words.get(block * BLOCK_WORDS + word);
            word.is_some_and(|word| word & bit != 0)
        })
    }
}

/// Returns true for containers of copies that were made forward.
fn is_forward(container: ContainerId) -> bool {
    FORWARD_WRITERS.contains(&container.writer())
}

/// Moves the places of copies that were made forward to the front, the newest first. The others
/// keep their order.
pub(super) fn forward_first(candidates: &mut [Location]) {
    if candidates.len() > 1 {
        candidates.sort_by_key(|candidate| match is_forward(candidate.container) {
            true => (0, Reverse(candidate.container)),
            false => (1, Reverse(ContainerId::default())),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(n: u32) -> Fingerprint {
        let mut seed = u64::from(n) + 1;
        Fingerprint(std::array::from_fn(|_| {
            seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed >> 29;
            (seed >> 40) as u8
        }))
    }

    #[test]
    fn what_was_moved_is_known_and_little_else() {
        let moved = Moved::default();
        let old = ContainerId::new(WriterId(1), 7);
        assert!(!moved.is_elsewhere(old, &chunk(1)));
        let all: Vec<_> = (0..20_000).map(chunk).collect();
        moved.add(all.iter());
        assert!(moved.is_full());
        moved.reset(2 * moved.entries());
        moved.add(all.iter());
        assert!(!moved.is_full());
        assert!(all.iter().all(|f| moved.is_elsewhere(old, f)));
        let new = ContainerId::new(WriterId(5), 7);
        assert!(!moved.is_elsewhere(new, &all[0]), "found where it is now");
        let wrong = (20_000..40_000).filter(|n| moved.is_elsewhere(old, &chunk(*n)));
        assert!(wrong.count() < 600);
        let again = Moved::default();
        again.restore(moved.record(3));
        assert!(all.iter().all(|f| again.is_elsewhere(old, f)));
    }

    #[test]
    fn newer_copies_come_first_and_the_others_stay_in_order() {
        let at = |writer, sequence| Location {
            container: ContainerId::new(WriterId(writer), sequence),
            sector: 1,
            sectors: 1,
        };
        let mut candidates = [at(1, 9), at(4, 1), at(3, 2), at(5, 1), at(5, 8)];
        forward_first(&mut candidates);
        assert_eq!(
            candidates,
            [at(5, 8), at(5, 1), at(4, 1), at(1, 9), at(3, 2)]
        );
    }
}
