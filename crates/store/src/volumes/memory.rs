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
        let chunks = engine.backing.pool.chunks();
        [
            ("pages", engine.backing.cache.counters().bytes_resident),
            ("pieces", engine.levels.pieces.count() * PIECE_BYTES as u64),
            ("journal", engine.backing.journal.usage().memory_bytes),
            ("index", chunks.index.counters().memory_bytes),
            ("directories", chunks.directory_bytes() as u64),
            (
                "regions",
                engine.backing.pool.reader().cached_bytes() as u64,
            ),
        ]
    }
}
