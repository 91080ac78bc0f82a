//! Why a pool is not shown as files.
//!
//! Invariant: the words name the place as the user wrote it, where there is one. Called by the
//! mounts; the program maps the kinds to exit codes.

use std::io;

/// See the module's head.
#[derive(Debug, thiserror::Error)]
pub enum MountingError {
    /// The system refuses that directory.
    #[error("{place}")]
    Place {
        /// The directory.
        place: String,
        /// Why.
        source: io::Error,
    },
    /// A mount that nobody serves is there, and cannot be unmounted.
    #[error("{place}")]
    Abandoned {
        /// The directory.
        place: String,
        /// Why not.
        source: fuse::MountError,
    },
    /// Nothing can be mounted there.
    #[error("{0} is not a directory")]
    NotDirectory(String),
    /// The mount would hide the pool that it shows.
    #[error("the pool is in {0}: it would be hidden")]
    HidesPool(String),
    /// The mount would lie in the pool that it shows.
    #[error("{0} is in the pool")]
    InPool(String),
    /// It cannot be mounted there.
    #[error("cannot mount at {place}")]
    Mount {
        /// The directory, absolute.
        place: String,
        /// Why not.
        source: fuse::MountError,
    },
    /// The kernel's requests cannot be answered, or could not any more.
    #[error(transparent)]
    Session(#[from] fuse::SessionError),
    /// The thread that answers them is gone.
    #[error("the session ended unexpectedly")]
    Ended,
    /// The system refused something else.
    #[error(transparent)]
    Io(#[from] io::Error),
}
