//! Work that a maintenance run has left. The states of the tasks report it; deadlines use it.
//!
//! Invariant: a plain value.

use units::UnixNanos;

/// Work that a run has left, at the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkLeft {
    /// When the run began.
    pub began: UnixNanos,
    /// Bytes to read and write.
    pub bytes: u64,
}
