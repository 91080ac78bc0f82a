//! The second reason to move a range: a random read of it fetches much more than it needs.
//!
//! FragPicker moves what lies in too many pieces. Where bytes are compressed in regions, the
//! opposite costs too: a region that is large for scans is read and decoded whole for each random
//! read. Only hot ranges of few bytes are worth regions of their own (FragPicker's thought).
//!
//! Volumes ask this which regions random reads fetched whole, and needed little of. The
//! defragmentation of the store selects ranges with it. Invariant: pure. What is selected of an
//! object is whole chunks, at most [`SMALL_PERCENT`] of it.

use crate::WINDOW_BYTES;
use crate::analysis::HotRange;
use crate::trace::REQUEST_WEIGHT;
use std::collections::BTreeMap;

/// Raw size of the regions into which such ranges are copied: one chunk of an image, four of a
/// volume. Smaller ones would not read faster, since the device reads a few sectors at least, and
/// would compress worse.
pub const SMALL_REGION_BYTES: u64 = 16 << 10;
/// At most so much of an object is kept in small regions.
pub const SMALL_PERCENT: u64 = 3;
/// A read is amplified if it costs so many times the bytes that a small region holds. Twice is the
/// minimum, for bytes that do not compress: each is read, and decoded.
const AMPLIFIED: u64 = 4;

/// Cost of reading one chunk that is not in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fetch {
    /// Bytes of the region that are read from the device.
    pub stored_bytes: u64,
    /// Bytes that are decoded from them.
    pub plain_bytes: u64,
    /// Length of the chunk, bytes.
    pub chunk_bytes: u64,
}

impl Fetch {
    /// Returns true if the chunk would be cheaper to read in a small region.
    pub fn is_amplified(&self) -> bool {
        let cost = self.stored_bytes.saturating_add(self.plain_bytes);
        cost >= AMPLIFIED.saturating_mul(self.chunk_bytes.max(SMALL_REGION_BYTES))
    }

    /// Returns about how many bytes would be read from the device for it in a small region.
    pub fn small_bytes(&self) -> u64 {
        let small = u128::from(self.chunk_bytes.max(SMALL_REGION_BYTES));
        let small = small * u128::from(self.stored_bytes) / u128::from(self.plain_bytes.max(1));
        u64::try_from(small).unwrap_or(u64::MAX)
    }
}

/// Returns true if requests of this length count as random reads. Scans are traced as windows.
pub fn is_short(range: &HotRange) -> bool {
    range.end.saturating_sub(range.start) < WINDOW_BYTES
}

/// Selects the hottest chunks of an object of `size` bytes, in chunks of `chunk_bytes`: those that
/// were requested more than once of late, up to [`SMALL_PERCENT`] of the object.
///
/// `ranges` are short requests for what was fetched with amplification, in any order. The result
/// is ascending and disjoint; neighbours are joined.
pub fn hottest_chunks(ranges: &[HotRange], size: u64, chunk_bytes: u64) -> Vec<HotRange> {
    let chunk_bytes = chunk_bytes.max(1);
    let mut weights: BTreeMap<u64, u64> = BTreeMap::new();
    for range in ranges.iter().filter(|range| range.start < range.end) {
        let last = (range.end - 1).min(size.saturating_sub(1)) / chunk_bytes;
        for chunk in range.start / chunk_bytes..=last {
            let weight = weights.entry(chunk).or_default();
            *weight = weight.saturating_add(range.weight);
        }
    }
    let mut chunks: Vec<_> = weights.into_iter().collect();
    chunks.retain(|(_, weight)| *weight > REQUEST_WEIGHT);
    chunks.sort_by_key(|(chunk, weight)| (std::cmp::Reverse(*weight), *chunk));
    let most = size / 100 * SMALL_PERCENT / chunk_bytes;
    chunks.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    chunks.sort_unstable();
    let mut selected: Vec<HotRange> = Vec::new();
    for (chunk, weight) in chunks {
        let start = chunk.saturating_mul(chunk_bytes);
        let end = start.saturating_add(chunk_bytes).min(size);
        match selected.last_mut() {
            Some(last) if last.end == start => {
                last.end = end;
                last.weight = last.weight.saturating_add(weight);
            }
            _ => selected.push(HotRange { start, end, weight }),
        }
    }
    selected
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    fn fetch(stored_kib: u64, plain_kib: u64, chunk_kib: u64) -> Fetch {
        Fetch {
            stored_bytes: stored_kib * KIB,
            plain_bytes: plain_kib * KIB,
            chunk_bytes: chunk_kib * KIB,
        }
    }

    #[test]
    fn large_regions_amplify_and_small_ones_do_not() {
        // Old pools, an image by default, plain data of an old pool.
        assert!(fetch(575, 1536, 16).is_amplified());
        assert!(fetch(47, 128, 16).is_amplified());
        assert!(fetch(1536, 1536, 16).is_amplified());
        // Plain data, a volume's region, a region of one large chunk.
        assert!(!fetch(16, 16, 16).is_amplified());
        assert!(!fetch(8, 16, 4).is_amplified());
        assert!(!fetch(128, 128, 128).is_amplified());
        // The copies that defragmentation makes must never count again, however small the chunk.
        assert!(!fetch(17, 16, 4).is_amplified());
        assert_eq!(fetch(48, 128, 16).small_bytes(), 6 * KIB);
    }

    #[test]
    fn chunks_are_selected_by_the_sum_of_their_requests() {
        let block = |n: u64, requests: u64| HotRange {
            start: n * 4 * KIB,
            end: (n + 1) * 4 * KIB,
            weight: requests * REQUEST_WEIGHT,
        };
        // Two blocks of chunk 0, read once each; one read of chunk 3; chunks 8 and 9 are hot.
        let ranges = [
            block(36, 9),
            block(0, 1),
            block(1, 1),
            block(12, 1),
            block(32, 5),
        ];
        let range = |start: u64, end: u64, requests| HotRange {
            start: start * 16 * KIB,
            end: end * 16 * KIB,
            weight: requests * REQUEST_WEIGHT,
        };
        let size = 16 << 20;
        let all = hottest_chunks(&ranges, size, 16 * KIB);
        assert_eq!(all, [range(0, 1, 2), range(8, 10, 14)]);
        // Two chunks are three percent of this one.
        let size = 70 * 16 * KIB;
        let two = hottest_chunks(&ranges, size, 16 * KIB);
        assert_eq!(two, [range(8, 10, 14)]);
        assert!(hottest_chunks(&ranges, 32 * 16 * KIB, 16 * KIB).is_empty());
        assert!(hottest_chunks(&[], 0, 16 * KIB).is_empty());
    }
}
