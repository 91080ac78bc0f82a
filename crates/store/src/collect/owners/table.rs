//! Chunks that will be copied, and their owners. `owners` and its walk use this.
//!
//! Invariant: the table never grows beyond the memory that it was made with. A chunk is known by
//! eight bytes of its fingerprint; two chunks that share them get the owners of both, which affects
//! only their order.

use chunk_store::chunk_map::FingerprintHasher;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use units::Fingerprint;

/// Memory of one slot of the table, bytes: key, value, and a byte of the table itself.
const SLOT_BYTES: usize = size_of::<(u64, Owned)>() + 1;

/// Owners of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::collect) struct Owned {
    /// One bit for each owner. The newest owner has the highest bit.
    pub owners: u32,
    /// Place in the recipe of the newest owner: chunks with ascending numbers follow each other.
    pub order: u64,
}

impl Owned {
    /// A chunk without known owners.
    pub const UNKNOWN: Self = Self {
        owners: 0,
        order: u64::MAX,
    };
}

/// See the module's head.
pub(super) struct OwnerTable {
    chunks: HashMap<u64, Owned, BuildHasherDefault<FingerprintHasher>>,
    chunks_max: usize,
}

impl OwnerTable {
    /// Creates a table for so many chunks, or for as many as fit into `bytes_max`.
    pub fn new(chunks: usize, bytes_max: usize) -> Self {
        // The table has a power of two of slots, of which an eighth stays free.
        let slots = (bytes_max / SLOT_BYTES + 1).next_power_of_two() / 2;
        let chunks_max = chunks.min(slots / 8 * 7);
        Self {
            chunks: HashMap::with_capacity_and_hasher(chunks_max, BuildHasherDefault::default()),
            chunks_max,
        }
    }

    pub fn is_full(&self) -> bool {
        self.chunks.len() >= self.chunks_max
    }

    pub fn memory_bytes(&self) -> usize {
        (self.chunks.capacity() / 7 * 8).next_power_of_two() * SLOT_BYTES
    }

    /// Enters a chunk, without owners, unless the table is full.
    pub fn enter(&mut self, fingerprint: &Fingerprint) {
        if !self.is_full() {
            self.chunks
                .entry(short(fingerprint))
                .or_insert(Owned::UNKNOWN);
        }
    }

    /// Adds owners to a chunk that was entered. The smallest place stays.
    pub fn add(&mut self, fingerprint: &Fingerprint, owners: u32, order: u64) {
        if let Some(owned) = self.chunks.get_mut(&short(fingerprint)) {
            owned.owners |= owners;
            owned.order = owned.order.min(order);
        }
    }

    pub fn of(&self, fingerprint: &Fingerprint) -> Owned {
        let owned = self.chunks.get(&short(fingerprint));
        owned.copied().unwrap_or(Owned::UNKNOWN)
    }
}

fn short(fingerprint: &Fingerprint) -> u64 {
    let first = fingerprint.0.first_chunk::<8>();
    first.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(n: u32) -> Fingerprint {
        let mut bytes = [7; 32];
        bytes[..8].copy_from_slice(
            &u64::from(n)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .to_le_bytes(),
        );
        Fingerprint(bytes)
    }

    #[test]
    fn owners_add_up_and_the_first_place_stays() {
        let mut table = OwnerTable::new(10, 1 << 20);
        table.enter(&chunk(1));
        assert_eq!(table.of(&chunk(1)), Owned::UNKNOWN);
        table.add(&chunk(1), 4, 70);
        table.add(&chunk(1), 1, 90);
        let both = Owned {
            owners: 5,
            order: 70,
        };
        assert_eq!(table.of(&chunk(1)), both);
        table.add(&chunk(2), 4, 3);
        assert_eq!(table.of(&chunk(2)), Owned::UNKNOWN, "not to be copied");
    }

    #[test]
    fn it_stays_within_its_memory() {
        for bytes_max in [0, 100, 5_000, 1 << 20, (1 << 20) + 7] {
            let mut table = OwnerTable::new(1 << 20, bytes_max);
            (0..100_000).for_each(|n| table.enter(&chunk(n)));
            assert!(table.memory_bytes() <= bytes_max.max(SLOT_BYTES));
            let known = (0..100_000).filter(|n| table.chunks.contains_key(&short(&chunk(*n))));
            assert!(
                known.count() * SLOT_BYTES * 3 >= bytes_max.min(100_000 * SLOT_BYTES)
                    || bytes_max < 1000
            );
        }
    }
}
