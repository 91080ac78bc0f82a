//! Replication: snapshots of one pool into another, only what is missing there.
//!
//! A snapshot keeps its name (the sixteen bytes) when it is copied, so the snapshots that both pools
//! have say what is known on both sides: they are walked together with a new one, and what did not change
//! since is not read, whatever the keys of the two pools (decision 24).
//!
//! Invariant: what is sent was verified against its fingerprint; an unwritten page never is. A
//! snapshot appears in the receiving pool with the commit that makes all of it durable, or not at all.
//! What was sent before an interruption is found, not sent again. Called by the program: a command, or
//! the server that runs it.

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

/// Why a snapshot could not be copied.
#[derive(Debug)]
pub enum CopyError {
    /// It cannot be read.
    Source(StoreError),
    /// The other pool cannot take it.
    Receiver(StoreError),
}

impl CopyError {
    /// What a pool said.
    pub fn into_cause(self) -> StoreError {
        match self {
            Self::Source(e) | Self::Receiver(e) => e,
        }
    }
}

impl std::fmt::Display for CopyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Source(_) => "the pool that is copied",
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
