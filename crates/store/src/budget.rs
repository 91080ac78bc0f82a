//! Who gets how much of the memory that a pool is opened with.
//!
//! Invariant: pure arithmetic; the shares never sum to more than the whole. Recovery takes its numbers from
//! here; the program's plan shows the same.

/// Memory of an open pool, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolMemory {
    /// The fingerprint index.
    pub index: usize,
    /// Directories of containers.
    pub directories: usize,
    /// What sessions have claimed: a half for each of two, those of volumes live side by side.
    pub claims: usize,
    /// Decoded regions.
    pub regions: usize,
}

impl PoolMemory {
    /// Divides a budget: 3, 3, 2 and 8 sixteenths.
    pub fn of(bytes: usize) -> Self {
        let sixteenth = bytes / 16;
        Self {
            index: sixteenth * 3,
            directories: sixteenth * 3,
            claims: sixteenth * 2,
            regions: sixteenth * 8,
        }
    }
}
