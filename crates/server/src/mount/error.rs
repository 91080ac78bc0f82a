//! Errors of mounting a pool. Mounts return them; the program maps the kinds to exit codes.
//!
//! Invariant: a message about a directory names it as the user wrote it.

use std::io;

/// Error of mounting a pool.
#[derive(Debug, thiserror::Error)]
pub enum MountingError {
    /// The directory cannot be opened.
    #[error("cannot open {place}")]
    Place {
        /// The directory.
        place: String,
        /// The cause.
        source: io::Error,
    },
    /// An abandoned mount is there and cannot be unmounted.
    #[error("cannot unmount the abandoned mount at {place}")]
    Abandoned {
        /// The directory.
        place: String,
        /// The cause.
        source: fuse::MountError,
    },
    /// The mountpoint is not a directory.
    #[error("{0} is not a directory")]
    NotDirectory(String),
    /// The mount would hide files.
    #[error(
        "cannot mount at {0}: it has files, which the mount would hide; choose an empty directory, or say --over"
    )]
    NotEmpty(String),
    /// The mount would hide the pool that it shows.
    #[error("cannot mount at {0}: the mount would hide the pool")]
    HidesPool(String),
    /// The mount would lie in the pool that it shows.
    #[error("cannot mount at {0}: it is in the pool")]
    InPool(String),
    /// The kernel refused the mount.
    #[error("cannot mount at {place}")]
    Mount {
        /// The directory, absolute.
        place: String,
        /// The cause.
        source: fuse::MountError,
    },
    /// The session failed.
    #[error(transparent)]
    Session(#[from] fuse::SessionError),
    /// The session's thread ended without a result.
    #[error("the FUSE session ended unexpectedly")]
    Ended,
    /// Another system call failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}
