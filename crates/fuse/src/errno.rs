//! The one table from error kinds of the waist to error numbers of Linux.
//!
//! Invariant: exhaustive, so a new kind does not compile until someone decided what a process is
//! told. Volume files call this.

use rustix::io::Errno;
use volume::{VolumeError, VolumeErrorKind};

/// What the asking process is told.
pub fn errno(error: &VolumeError) -> Errno {
    match error.kind {
        VolumeErrorKind::OutOfRange => Errno::INVAL,
        VolumeErrorKind::ReadOnly => Errno::ROFS,
        VolumeErrorKind::NoSpace => Errno::NOSPC,
        VolumeErrorKind::Unsupported => Errno::OPNOTSUPP,
        VolumeErrorKind::Io | VolumeErrorKind::Failed => Errno::IO,
    }
}
