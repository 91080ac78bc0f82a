//! Divides the memory of an open pool. Recovery uses the shares; the program's plan shows them.
//!
//! Invariant: pure arithmetic. The shares never exceed the whole.

/// Memory of an open pool, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolMemory {
    /// The fingerprint index.
    pub index: usize,
    /// Directories of containers.
    pub directories: usize,
    /// Claims of sessions: one half for each of two sessions, because those of volumes overlap.
    pub claims: usize,
    /// Decoded regions.
    pub regions: usize,
}

impl PoolMemory {
    /// Divides a budget of `bytes`: 3, 3, 2 and 8 sixteenths.
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
