//! Scrubs files of this machine against a snapshot: is on the disk what a backup read? The program
//! runs it for `quintet host scrub`.
//!
//! ```text
//! snapshot --directories--> Tree: directories and files, numbered
//!                             |
//! page events --> Watch --> Driver (duet) --> Scrub: a part of a file --> Medium: bytes of disk
//!                                               |                            |
//!                                               +-- fingerprints of recipe --+--> verdict
//! ```
//!
//! The pool's disk reads directories and recipes only, until bytes differ: then the stored chunk
//! says which.
//!
//! Invariant: a file is rotten only if its times, inode and size were those of the snapshot before
//! and after the bytes were read. No file is changed, and the page cache keeps what it had.

mod compare;
mod opened;
mod ranges;
mod scrubber;
mod task;
mod tree;

pub use scrubber::{HostScrubOptions, HostScrubber};
pub use tree::{FileTree, Top, Totals};

use archive::filesystem::PathError;
use format::host_scrub::HostScrubFinding;
use store::StoreError;

/// News of a scrub, besides progress.
#[derive(Debug)]
pub enum HostScrubNews {
    /// A file is damaged on its medium.
    Found(HostScrubFinding),
    /// A file or directory could not be compared.
    Failed(PathError),
    /// The stored form of a file is damaged: nothing says what its bytes were.
    PoolDamaged {
        /// Path below the scrubbed one.
        path: Vec<u8>,
        /// The damage.
        error: StoreError,
    },
    /// From here on, what others read is read again, for this reason.
    EventsLost(String),
}
