//! Bytes that a maintenance task went through, by where they were found.
//!
//! Invariant: sums saturate. Used by the tasks of the server's state, `status` and the metrics.

/// Bytes by where they were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskBytes {
    /// Read from the device.
    pub disk: u64,
    /// They were in memory, or readers had verified them.
    pub cache: u64,
}

impl TaskBytes {
    /// Of so many, these were in memory.
    pub fn of(all: u64, cache: u64) -> Self {
        Self {
            disk: all.saturating_sub(cache),
            cache,
        }
    }

    /// Both together.
    pub fn plus(self, more: Self) -> Self {
        Self {
            disk: self.disk.saturating_add(more.disk),
            cache: self.cache.saturating_add(more.cache),
        }
    }

    /// What has come since it was `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            disk: self.disk.saturating_sub(before.disk),
            cache: self.cache.saturating_sub(before.cache),
        }
    }
}
