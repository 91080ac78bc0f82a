//! Reports memory by owner.
//!
//! Status and metrics of the server call this.
//! Invariant: cheap. Each owner counts its own memory and keeps to its share.

use super::Volumes;
use super::overlay::PIECE_BYTES;

/// Memory of a pool and its volumes: owner, bytes.
pub type MemoryByOwner = [(&'static str, u64); 6];

impl Volumes {
    /// Returns `pages` and `pieces` of volumes, buffers of the `journal`, and the pool's `index`,
    /// `directories` of containers and decoded `regions`. Claims of sessions, and containers that
    /// are being filled or written, are not included.
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
