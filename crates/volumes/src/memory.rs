//! Who has how much of the memory budget.
//!
//! Invariant: cheap, and counted by the owners themselves, each of which keeps to its share. Called by
//! whoever shows it.

use super::Volumes;
use super::overlay::PIECE_BYTES;

/// Memory of a pool and its volumes: owner, bytes.
pub type MemoryByOwner = [(&'static str, u64); 6];

impl Volumes {
    /// `pages` and `pieces` of volumes, buffers of the `journal`; the pool's `index`, `directories` of
    /// containers and decoded `regions`. Not in it: claims of sessions, and containers that are filled
    /// and written.
    pub fn memory_by_owner(&self) -> MemoryByOwner {
        let engine = &self.engine;
        let [index, directories, regions] = engine.backing.pool.memory_by_owner();
        [
            ("pages", engine.backing.cache.counters().bytes_resident),
            ("pieces", engine.levels.pieces.count() * PIECE_BYTES as u64),
            ("journal", engine.backing.journal.usage().memory_bytes),
            index,
            directories,
            regions,
        ]
    }
}
