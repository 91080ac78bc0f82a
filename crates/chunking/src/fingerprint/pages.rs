//! Keyed BLAKE3 of pages of 4 KiB, sixteen side by side.
//!
//! One page is four of the hash's leaves, so a hash alone fills four of a processor's sixteen lanes;
//! here each lane has the leaf of another page. Invariant: the names are those that
//! `blake3::keyed_hash` gives, which the tests compare. `blake3` publishes the kernel "for benchmarks
//! only": its version is pinned, a change of it does not compile or fails the tests. Called by
//! [`super::FingerprintKey`].

use blake3::IncrementCounter;
use blake3::platform::Platform;
use units::Fingerprint;
use zeroize::Zeroizing;

/// Bytes of a page.
pub(super) const PAGE_BYTES: usize = 4096;
/// Pages at a time, at most.
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

/// Chaining values of one place in the trees of all pages.
type Level = [[u8; NAME_BYTES]; LANES];

/// The kernel of this processor, and the key as it wants it.
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

    /// Appends the names of at most [`LANES`] pages.
    pub fn append(&self, pages: &[&[u8; PAGE_BYTES]], names: &mut Vec<Fingerprint>) {
        let [first, second, third, fourth] = [0, 1, 2, 3].map(|leaf| self.leaves(pages, leaf));
        let count = pages.len();
        let left = self.parents(&first, &second, count, 0);
        let right = self.parents(&third, &fourth, count, 0);
        let roots = self.parents(&left, &right, count, ROOT);
        names.extend(roots.iter().take(count).map(|name| Fingerprint(*name)));
    }

    /// Leaf `number` of each page.
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

    /// What stands over two neighbours in each page's tree.
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
