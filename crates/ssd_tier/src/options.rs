//! Sizes of a tier: how its memory and its device are divided. The store makes them, `tier` uses
//! them.
//!
//! Invariant: the size of a block depends on the capacity alone, so a tier that is opened with
//! other memory is still warm.

use crate::ghosts::Ghosts;
use format::tier::{BLOCK_BYTES_MAX, BLOCK_BYTES_MIN};

/// Blocks of larger tiers are longer: a place in memory counts so many slots.
pub(crate) const SLOTS_MAX: u64 = 1 << 21;
/// Normal length of a block, bytes.
const BLOCK_BYTES: u32 = 4 << 20;
/// Smallest number of blocks for which they get their normal length.
const BLOCKS_MIN: u64 = 128;
/// Memory of a slot, its place in the order of eviction included, bytes.
const SLOT_MEMORY_BYTES: u64 = 96;
/// Bytes of the device for which the index takes one: 16 bytes for a chunk of 4 KiB.
pub const BYTES_OF_INDEX_BYTE: u64 = 256;
/// Maximum number of blocks that wait to be written.
const STAGED_BLOCKS_MAX: u64 = 16;

/// Sizes of a tier.
#[derive(Clone, Copy, Debug)]
pub struct TierOptions {
    /// Bytes of the device that the tier may use. The kinds divide it by their shares.
    pub capacity_bytes: u64,
    /// Memory of the tier: index, slots and staged chunks.
    pub memory_bytes: u64,
    /// Length of a block, a power of two, bytes.
    pub block_bytes: u32,
    /// How many times the capacity may be written a day, in hundredths.
    pub daily_writes_hundredths: u32,
    /// The tier only reads what another process writes, and takes no lock.
    pub is_reading: bool,
}

impl TierOptions {
    /// Makes the usual options: three capacities a day.
    pub fn new(capacity_bytes: u64, memory_bytes: u64) -> Self {
        let wanted = (capacity_bytes / BLOCKS_MIN).min(u64::from(BLOCK_BYTES));
        let needed = capacity_bytes.div_ceil(SLOTS_MAX);
        let bytes = wanted.max(needed).min(u64::from(BLOCK_BYTES_MAX)) as u32;
        // The power of two below, unless that gives too many slots.
        let below = (bytes.max(1).ilog2()).min(31);
        let mut block_bytes = 1u32 << below;
        if u64::from(block_bytes) < needed {
            block_bytes = block_bytes.saturating_mul(2);
        }
        Self {
            capacity_bytes,
            memory_bytes,
            block_bytes: block_bytes.clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX),
            daily_writes_hundredths: 300,
            is_reading: false,
        }
    }

    /// Leaves `bytes` of the capacity to others. Blocks keep their length: what is there is found
    /// again, however much the others take.
    #[must_use]
    pub fn without(self, bytes: u64) -> Self {
        let capacity_bytes = self.capacity_bytes.saturating_sub(bytes);
        Self {
            capacity_bytes,
            ..self
        }
    }

    /// Only reads.
    #[must_use]
    pub fn reading(self) -> Self {
        Self {
            is_reading: true,
            ..self
        }
    }

    /// Returns true if the memory suffices for the slots, and for an index.
    pub fn fits_memory(&self) -> bool {
        self.index_bytes(self.slots()) > 0
    }

    /// Returns the number of slots.
    pub(crate) fn slots(&self) -> u32 {
        let slots = self.capacity_bytes / u64::from(self.block_bytes.max(1));
        slots.min(SLOTS_MAX) as u32
    }

    /// Returns the limit of staged chunks, bytes of memory: what the index does not need, but a
    /// quarter if that is more. At least two blocks, so that one fills while the other is written.
    pub(crate) fn staging_bytes(&self) -> u64 {
        if self.is_reading {
            return 0;
        }
        let block = u64::from(self.block_bytes);
        let needed = self.capacity_bytes / BYTES_OF_INDEX_BYTE + self.fixed_bytes(self.slots());
        let left = self.memory_bytes.saturating_sub(needed);
        left.max(self.memory_bytes / 4)
            .clamp(2 * block, STAGED_BLOCKS_MAX * block)
    }

    /// Returns the memory of the index, bytes: what the rest leaves.
    pub(crate) fn index_bytes(&self, slots: u32) -> u64 {
        let rest = self.staging_bytes() + self.fixed_bytes(slots);
        self.memory_bytes.saturating_sub(rest)
    }

    /// Returns the memory of all but the index and staged chunks, bytes.
    pub(crate) fn fixed_bytes(&self, slots: u32) -> u64 {
        2 * u64::from(self.block_bytes)
            + u64::from(slots) * SLOT_MEMORY_BYTES
            + Ghosts::MEMORY_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_suit_the_capacity() {
        let block = |capacity| TierOptions::new(capacity, 0).block_bytes;
        assert_eq!(block(0), BLOCK_BYTES_MIN);
        assert_eq!(block(64 << 20), 512 << 10);
        assert_eq!(block(100 << 30), 4 << 20);
        assert_eq!(block(16 << 40), 8 << 20);
        assert_eq!(block(u64::MAX), BLOCK_BYTES_MAX);
        let huge = TierOptions::new(u64::MAX, 0);
        assert_eq!(u64::from(huge.slots()), SLOTS_MAX);
        let shared = TierOptions::new(64 << 20, 0).without(32 << 20);
        assert_eq!((shared.block_bytes, shared.slots()), (512 << 10, 64));
        let options = TierOptions::new(100 << 30, 256 << 20);
        assert_eq!(options.slots(), 25 * 1024);
        assert!(options.index_bytes(25 * 1024) > 128 << 20);
        assert!(options.fits_memory());
        let large = TierOptions::new(1 << 40, 16 << 20).reading();
        assert!(!large.fits_memory(), "its slots alone take 24 MiB");
    }

    /// With the memory that a server plans for a tier.
    #[test]
    fn what_the_index_does_not_need_stages_chunks() {
        for gib in [1, 10, 100] {
            let capacity = gib << 30;
            let options = TierOptions::new(capacity, (48 << 20) + capacity / 256);
            let blocks = options.staging_bytes() / u64::from(options.block_bytes);
            assert!(blocks >= 9, "{gib} GiB: {blocks} blocks");
            let index = options.index_bytes(options.slots());
            let needed = capacity / BYTES_OF_INDEX_BYTE;
            assert!(index >= needed / 10 * 9, "{gib} GiB: {index}");
            let all = index + options.staging_bytes() + options.fixed_bytes(options.slots());
            assert_eq!(all, options.memory_bytes);
        }
        let little = TierOptions::new(100 << 30, 256 << 20);
        assert_eq!(little.staging_bytes(), 64 << 20, "a quarter at least");
        assert_eq!(little.reading().staging_bytes(), 0);
    }
}
