//! Replication: copies snapshots of one pool into another, only data that is missing there. The
//! program calls this: a command, or the server that runs it.
//!
//! ```text
//! Replication -> task -> disk | object | tree -> carrier -> receiver -> other pool
//!                                                   ^
//!                                 page cache, or reads of this pool
//! ```
//!
//! A copy of a snapshot keeps its identifier (sixteen bytes), so snapshots that both pools have
//! show what both sides know. A new snapshot is compared with such a base, and unchanged parts are
//! not read, whatever the keys of the two pools (decision 24).
//!
//! Invariant: everything sent was verified against its fingerprint; a dirty page never is sent. A
//! snapshot appears in the receiving pool with the commit that makes all of it durable, or not at
//! all. Data sent before an interruption is found, not sent again.

mod carrier;
mod disk;
mod object;
mod pairs;
mod receiver;
mod replication;
mod task;
mod tree;
mod window;

pub use carrier::CopyCounts;
pub use disk::CopyLimits;
pub(crate) use pairs::{Pair, Pairs};
pub(crate) use tree::Listing;

pub use replication::{CopiedSnapshot, CopyNews, CopyOptions, Replication};

use store::StoreError;

/// Reason why a snapshot could not be copied.
#[derive(Debug)]
pub enum CopyError {
    /// The source pool cannot be read.
    Source(StoreError),
    /// The receiving pool cannot store it.
    Receiver(StoreError),
}

impl CopyError {
    /// Returns the pool's error.
    pub fn into_cause(self) -> StoreError {
        match self {
            Self::Source(e) | Self::Receiver(e) => e,
        }
    }
}

impl std::fmt::Display for CopyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Source(_) => "the source pool",
            Self::Receiver(_) => "the receiving pool",
        })
    }
}

impl std::error::Error for CopyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Source(e) | Self::Receiver(e) => Some(e),
        }
    }
}
