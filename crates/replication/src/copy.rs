//! Replication: copies snapshots of one pool into another, only data that is missing there. The
//! program calls this: a command, or the server that runs it.
//!
//! ```text
//! Replication -> task -> disk ------------------> carrier -> receiver -> other pool
//!                   \-> ordered --> walker           ^          ^
//!                         |  \----> piece           |          |
//!                         \-------> assembly -------|----------+
//!                                                    |
//!                                  memory, or reads of this pool
//! ```
//!
//! A disk is copied in parts, a stream or a tree in pieces: those first that clients have brought
//! into memory (Duet, SOSP'15). Any order gives the same objects.
//!
//! A copy of a snapshot keeps its identifier (sixteen bytes), so snapshots that both pools have
//! show what both sides know. A new snapshot is compared with such a base, and unchanged parts are
//! not read, whatever the keys of the two pools (decision 24).
//!
//! Invariant: everything sent was verified against its fingerprint; a dirty page never is sent. A
//! snapshot appears in the receiving pool with the commit that makes all of it durable, or not at
//! all. Data sent before an interruption is found, not sent again.

mod assembly;
mod carrier;
mod disk;
mod listing;
mod ordered;
mod pairs;
mod piece;
mod receiver;
mod replication;
mod task;
mod walker;
mod window;

pub use carrier::CopyCounts;
pub(crate) use listing::Listing;
pub(crate) use pairs::{Pair, Pairs};

pub use replication::{CopiedSnapshot, CopyNews, CopyOptions, Replication};

use store::StoreError;

/// Memory limits of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyLimits {
    /// Disks: maximum number of chunks and runs of holes that wait for the recipe, 48 bytes each.
    pub runs_max: usize,
    /// Disks: maximum number of upper recipe nodes in memory, 8 KiB each. At the limit the copies
    /// are committed without the snapshot; the nodes can then be read again.
    pub nodes_max: usize,
    /// Streams and trees: bytes of a piece. A larger one leaves more of the stream's order in the
    /// receiving pool.
    pub piece_bytes: u64,
    /// Streams and trees: number of pieces that may be copied out of order, at most 128. Each has
    /// up to 512 chunks of 80 bytes and 128 entries of directories.
    pub pieces_ahead: usize,
}

impl Default for CopyLimits {
    /// Disks: 256 parts of new data, 32 MiB of nodes. Streams and trees: 512 MiB of them ahead.
    fn default() -> Self {
        Self {
            runs_max: 1 << 16,
            nodes_max: 4096,
            piece_bytes: 4 << 20,
            pieces_ahead: 128,
        }
    }
}

/// State of a part or piece after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copying {
    Begun,
    /// The rest is not in memory, and the step has no I/O grant.
    NeedsDevice,
    Done,
}

/// Reason why a snapshot could not be copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The source pool cannot be read.
    #[error("the source pool")]
    Source(#[source] StoreError),
    /// The receiving pool cannot store it.
    #[error("the receiving pool")]
    Receiver(#[source] StoreError),
}

impl CopyError {
    /// Returns the pool's error.
    pub fn into_cause(self) -> StoreError {
        match self {
            Self::Source(e) | Self::Receiver(e) => e,
        }
    }
}
