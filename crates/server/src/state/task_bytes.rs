//! Bytes that a maintenance task processed, by where they were found. The tasks of the server
//! state, `status` and the metrics use this.
//!
//! Invariant: sums saturate.

/// Bytes by where they were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskBytes {
    /// Bytes that were read from the device.
    pub disk: u64,
    /// Bytes that were in memory, or that readers had verified already.
    pub cache: u64,
}

impl TaskBytes {
    /// Returns the split of `all` bytes, `cache` of which were in memory.
    pub fn of(all: u64, cache: u64) -> Self {
        Self {
            disk: all.saturating_sub(cache),
            cache,
        }
    }

    /// Returns the sum.
    pub fn plus(self, more: Self) -> Self {
        Self {
            disk: self.disk.saturating_add(more.disk),
            cache: self.cache.saturating_add(more.cache),
        }
    }

    /// Returns the difference to an earlier value.
    pub fn since(self, before: Self) -> Self {
        Self {
            disk: self.disk.saturating_sub(before.disk),
            cache: self.cache.saturating_sub(before.cache),
        }
    }
}
