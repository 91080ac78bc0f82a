//! Maps error kinds of volumes to error numbers of Linux. Volume files call this.
//!
//! Invariant: the table is exhaustive, so a new kind does not compile until its error number is
//! chosen. There is no second table.

use rustix::io::Errno;
use volume::{VolumeError, VolumeErrorKind};

/// Returns the error number for the calling process.
pub fn errno(error: &VolumeError) -> Errno {
    match error.kind {
        VolumeErrorKind::OutOfRange => Errno::INVAL,
        VolumeErrorKind::ReadOnly => Errno::ROFS,
        VolumeErrorKind::NoSpace => Errno::NOSPC,
        VolumeErrorKind::Unsupported => Errno::OPNOTSUPP,
        VolumeErrorKind::Io | VolumeErrorKind::Deleted | VolumeErrorKind::Failed => Errno::IO,
    }
}
