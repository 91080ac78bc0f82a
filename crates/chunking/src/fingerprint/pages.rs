//! Hashes 4 KiB pages with keyed BLAKE3, sixteen side by side. [`super::FingerprintKey`] calls
//! this.
//!
//! One page is four of the hash's leaves, so one hash fills only four of a processor's sixteen
//! lanes. Here each lane takes a leaf of another page.
//!
//! Invariant: the fingerprints equal those of `blake3::keyed_hash`. The tests compare them.
//! `blake3` publishes the kernel "for benchmarks only". Therefore its version is pinned: a changed
//! kernel does not compile or fails the tests.

use blake3::IncrementCounter;
use blake3::platform::Platform;
use units::Fingerprint;
use zeroize::Zeroizing;

/// Bytes of a page.
pub(super) const PAGE_BYTES: usize = 4096;
/// Maximum number of pages at a time.
pub(super) const LANES: usize = 16;

const LEAF_BYTES: usize = 1024;
const BLOCK_BYTES: usize = 64;
const NAME_BYTES: usize = 32;
// Domain flags (BLAKE3, section 2.2).
const CHUNK_START: u8 = 1 << 0;
const CHUNK_END: u8 = 1 << 1;
const PARENT: u8 = 1 << 2;
const ROOT: u8 = 1 << 3;
const KEYED_HASH: u8 = 1 << 4;

/// Chaining values at one position in the trees of all pages.
type Level = [[u8; NAME_BYTES]; LANES];

/// The kernel of this processor, and the key in the kernel's form.
#[derive(Clone)]
pub(super) struct PageHasher {
    kernel: Platform,
    key: Box<Zeroizing<[u32; 8]>>,
}

impl PageHasher {
    pub fn new(key: &[u8; 32]) -> Self {
        let (words, _) = key.as_chunks::<4>();
        let mut key = Box::new(Zeroizing::new([0; 8]));
        for (word, bytes) in key.iter_mut().zip(words) {
            *word = u32::from_le_bytes(*bytes);
        }
        Self {
            kernel: Platform::detect(),
            key,
        }
    }

    #[cfg(test)]
    pub fn use_kernel(&mut self, kernel: Platform) {
        self.kernel = kernel;
    }

    /// Appends the fingerprints of at most [`LANES`] pages.
    pub fn append(&self, pages: &[&[u8; PAGE_BYTES]], names: &mut Vec<Fingerprint>) {
        let [first, second, third, fourth] = [0, 1, 2, 3].map(|leaf| self.leaves(pages, leaf));
        let count = pages.len();
        let left = self.parents(&first, &second, count, 0);
        let right = self.parents(&third, &fourth, count, 0);
        let roots = self.parents(&left, &right, count, ROOT);
        names.extend(roots.iter().take(count).map(|name| Fingerprint(*name)));
    }

    /// Hashes leaf `number` of each page.
    fn leaves(&self, pages: &[&[u8; PAGE_BYTES]], number: usize) -> Level {
        const NONE: &[u8; LEAF_BYTES] = &[0; LEAF_BYTES];
        let mut inputs = [NONE; LANES];
        for (input, page) in inputs.iter_mut().zip(pages) {
            let (leaves, _) = page.as_chunks::<LEAF_BYTES>();
            *input = leaves.get(number).unwrap_or(NONE);
        }
        let ends = (CHUNK_START, CHUNK_END);
        self.hash(&inputs, pages.len(), number as u64, KEYED_HASH, ends)
    }

    /// Hashes the parents of two neighbours in each page's tree.
    fn parents(&self, left: &Level, right: &Level, count: usize, flags: u8) -> Level {
        let mut blocks = [[0; BLOCK_BYTES]; LANES];
        for ((block, left), right) in blocks.iter_mut().zip(left).zip(right) {
            let (at_left, at_right) = block.split_at_mut(NAME_BYTES);
            at_left.copy_from_slice(left);
            at_right.copy_from_slice(right);
        }
        let inputs = blocks.each_ref();
        self.hash(&inputs, count, 0, KEYED_HASH | PARENT | flags, (0, 0))
    }

    fn hash<const N: usize>(
        &self,
        inputs: &[&[u8; N]; LANES],
        count: usize,
        counter: u64,
        flags: u8,
        (start, end): (u8, u8),
    ) -> Level {
        let mut level = [[0; NAME_BYTES]; LANES];
        let inputs = inputs.get(..count).unwrap_or(inputs);
        let out = level.as_flattened_mut();
        let every = IncrementCounter::No;
        self.kernel
            .hash_many(inputs, &self.key, counter, every, flags, start, end, out);
        level
    }
}
