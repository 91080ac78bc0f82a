//! Knows which keys a bucket of the file does not hold: a Bloom filter of each bucket (DDFS's
//! summary vector, FAST'08, section 4.1, by buckets). The cache of buckets calls this under the
//! lock of a bucket's set.
//!
//! Most lookups of a backup or of a checkpoint are for chunks that the pool does not have. Memory
//! holds a part of the buckets, so nearly each would read one from the device. A filter takes a
//! sixteenth of its bucket at most, and answers for all but a few in a hundred of them.
//!
//! A filter is made of a bucket that was verified, when it is read or written. No filter is stored:
//! after a start the first lookups read [`NEIGHBOURS`] buckets at once and so learn the rest.
//!
//! Invariant: a key that a filter denies is not in its bucket, and was not since the filter was
//! made, but for entries of deleted containers.

use format::index::{BUCKET_ENTRIES, Bucket};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Buckets that are read together when the filter of one of them is missing. On a disk that seeks,
/// 64 KiB cost little more than 4.
pub(super) const NEIGHBOURS: u64 = 16;
/// Possible sizes of a filter, words, the largest first: at 70 % of its entries (see `size`) a
/// bucket has 8.6, 4.3 or 2.2 bits an entry, and 2, 13 or 37 of 100 keys that are not there pass.
/// Half as full, 0.1, 2 or 14.
const WORDS: [usize; 3] = [32, 16, 8];

/// Answer of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// The bucket does not have the key.
    Absent,
    /// It may have it.
    Possible,
    /// The bucket has no filter yet.
    Unknown,
    /// The bucket will have none: there is no memory for it.
    Uncovered,
}

/// The filters of one table.
pub(super) struct Absence {
    words: Vec<AtomicU64>,
    words_per_bucket: usize,
}

impl Absence {
    /// Creates unknown filters for a table of so many buckets, in at most `bytes` bytes: the
    /// largest that cover all, or the smallest for as many as there is memory for.
    pub(super) fn new(bytes: usize, buckets: u64) -> Self {
        let buckets = usize::try_from(buckets).unwrap_or(usize::MAX);
        let room = bytes / size_of::<u64>();
        let [.., smallest] = WORDS;
        let fits = |per_bucket: &usize| buckets.saturating_mul(*per_bucket) <= room;
        let words_per_bucket = WORDS.into_iter().find(fits).unwrap_or(smallest);
        let covered = buckets.min(room / words_per_bucket);
        let words = (0..covered * words_per_bucket).map(|_| AtomicU64::new(0));
        Self {
            words: words.collect(),
            words_per_bucket,
        }
    }

    /// Creates no filters: for a table whose buckets all fit into memory, or that another process
    /// writes.
    pub(super) fn none() -> Self {
        Self::new(0, 0)
    }

    /// Returns the memory used, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.words.len() * size_of::<u64>()
    }

    fn of(&self, number: u64) -> Option<&[AtomicU64]> {
        let number = usize::try_from(number).ok()?;
        let from = number.checked_mul(self.words_per_bucket)?;
        self.words
            .get(from..from.checked_add(self.words_per_bucket)?)
    }

    /// Returns the positions of a key's bits: words and masks.
    fn positions(&self, rest: u64) -> impl Iterator<Item = (usize, u64)> {
        // Neighbouring keys share bits, so these are mixed first.
        let mixed = (rest ^ (rest >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (first, step) = (mixed >> 32, (mixed & 0xffff_ffff) | 1);
        let bits = self.words_per_bucket as u64 * 64;
        let count = bits.div_ceil(BUCKET_ENTRIES as u64);
        (0..count).map(move |nth| {
            let bit = (first + nth * step) % bits;
            ((bit / 64) as usize, 1 << (bit % 64))
        })
    }

    /// Returns whether a bucket may have a key.
    pub(super) fn look(&self, number: u64, rest: u64) -> Presence {
        let Some(filter) = self.of(number) else {
            return Presence::Uncovered;
        };
        let is_set = |(word, mask): (usize, u64)| {
            filter
                .get(word)
                .is_some_and(|word| word.load(Relaxed) & mask != 0)
        };
        match () {
            () if self.positions(rest).all(is_set) => Presence::Possible,
            // The filter of an empty bucket has a bit, too.
            () if filter.iter().any(|word| word.load(Relaxed) != 0) => Presence::Absent,
            () => Presence::Unknown,
        }
    }

    /// Makes the filter of a bucket. The caller has the lock of its set.
    pub(super) fn learn(&self, number: u64, bucket: &Bucket) {
        let Some(filter) = self.of(number) else {
            return;
        };
        let mut made = [0u64; WORDS[0]];
        for (rest, _) in bucket.iter() {
            for (word, mask) in self.positions(rest) {
                if let Some(word) = made.get_mut(word) {
                    *word |= mask;
                }
            }
        }
        if bucket.is_empty()
            && let [first, ..] = &mut made
        {
            *first = 1;
        }
        for (word, made) in filter.iter().zip(made) {
            word.store(made, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cache::{BucketCache, Probe, ReuseHint};
    use super::*;
    use format::index::{Geometry, IndexPlace};

    fn bucket(seed: u64, entries: u64) -> (Bucket, Vec<u64>) {
        let mut bucket = Bucket::empty();
        let rests: Vec<u64> = (0..entries)
            .map(|n| Geometry::rest((seed + n).wrapping_mul(0xd134_2543_de82_ef95) >> 20))
            .collect();
        for rest in &rests {
            assert!(bucket.push(*rest, IndexPlace::new(1, 8, 8).unwrap()));
        }
        (bucket, rests)
    }

    #[test]
    fn what_a_bucket_holds_is_never_denied_and_little_else_passes() {
        // Filter sizes by memory for 100 buckets, and the most that may pass of 1000.
        for (bytes, most) in [(25_600, 40), (12_800, 170), (6400, 440)] {
            let filters = Absence::new(bytes, 100);
            assert_eq!(filters.bytes(), bytes);
            let (full, rests) = bucket(5, BUCKET_ENTRIES as u64 * 7 / 10);
            assert_eq!(filters.look(99, rests[0]), Presence::Unknown);
            filters.learn(99, &full);
            assert!(
                rests
                    .iter()
                    .all(|rest| filters.look(99, *rest) == Presence::Possible)
            );
            let (_, others) = bucket(9000, 340);
            let passing = others
                .iter()
                .filter(|rest| filters.look(99, **rest) == Presence::Possible)
                .count();
            assert!(passing * 1000 / 340 <= most, "{bytes}: {passing} of 340");
            assert_eq!(filters.look(98, rests[0]), Presence::Unknown);
        }
    }

    #[test]
    fn too_little_memory_covers_the_first_buckets_and_an_empty_one_is_known() {
        let filters = Absence::new(640, 100);
        assert_eq!(filters.look(9, 1), Presence::Unknown);
        assert_eq!(filters.look(10, 1), Presence::Uncovered);
        filters.learn(10, &Bucket::empty());
        filters.learn(9, &Bucket::empty());
        assert_eq!(filters.look(9, 12_345_678), Presence::Absent);
        assert_eq!(Absence::none().look(0, 1), Presence::Uncovered);
    }

    /// A lookup reads neighbours without a lock, and a merge writes one of them meanwhile.
    #[test]
    fn bytes_from_before_a_write_make_no_filter() {
        let cache = BucketCache::new(1 << 20, 1 << 20, true);
        let (full, rests) = bucket(5, 100);
        let before = cache.epoch(3).expect("no write");
        cache.begin_write(3, full);
        assert_eq!(cache.epoch(3), None, "it is being written");
        cache.learn(3, before, &Bucket::empty());
        cache.end_write(3, false);
        cache.learn(3, before, &Bucket::empty());
        for rest in rests {
            let probe = cache.probe((3, rest), ReuseHint::Returns, |_| ());
            assert!(matches!(probe, Probe::Miss(_)), "the key is denied");
        }
    }
}
