//! Why a range of a file was not moved. Everything in `migrate` returns this.
//!
//! Invariant: whatever the error, the file holds the bytes that it would hold without us, and the
//! donor is freed.

use std::io;

/// Reason for which a file, or a range of it, stays where it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrationError {
    /// Reflinks or snapshots own the extents too: moving them would take their space twice.
    #[error("shared with other files or snapshots")]
    Shared,
    /// The immutable attribute is set.
    #[error("immutable")]
    Immutable,
    /// The append-only attribute is set.
    #[error("append-only")]
    AppendOnly,
    /// The kernel has the addresses of its blocks.
    #[error("in use as swap space")]
    SwapFile,
    /// Sealed by the program that made it.
    #[error("sealed")]
    Sealed,
    /// Compressed by the file system.
    #[error("compressed by the file system")]
    Compressed,
    /// Encrypted by the file system.
    #[error("encrypted by the file system")]
    Encrypted,
    /// Protected by fs-verity.
    #[error("protected by fs-verity")]
    Verity,
    /// Mapped to the memory of a device.
    #[error("accessed without the page cache (DAX)")]
    Dax,
    /// ext4 moves only files that are open for writing, and those cannot be started.
    #[error("a program, which could not be started meanwhile")]
    Program,
    /// Another process moves extents of the file.
    #[error("being defragmented by another process")]
    HeldByAnother,
    /// The file is not a regular one.
    #[error("not a regular file")]
    NotRegular,
    /// No room for a copy, or the quota is used up.
    #[error("not enough free space for a copy")]
    NoSpace,
    /// No free piece is long enough.
    #[error("free space is fragmented too")]
    FreeSpaceFragmented,
    /// The file system, the mount or the subvolume is read-only.
    #[error("read-only")]
    ReadOnly,
    /// Not permitted to this user.
    #[error("permission denied")]
    Permission,
    /// Not ext4, xfs or btrfs.
    #[error("extents can be moved on ext4, xfs and btrfs only")]
    WrongFileSystem,
    /// A crash could leave old contents of the new blocks in the file.
    #[error("ext4 without data=ordered, where a crash could damage the file")]
    NotOrdered,
    /// The file system cannot do it: no reflinks on xfs, no extents on ext4.
    #[error("not supported by this file system or for this file")]
    Unsupported,
    /// Already in one piece.
    #[error("already in one piece")]
    NothingToGain,
    /// Writers were faster, or the file was truncated.
    #[error("written or truncated meanwhile")]
    Changed,
    /// The device or the file system failed.
    #[error("{operation}: {source}")]
    Io {
        /// The step that failed.
        operation: &'static str,
        /// The reason.
        source: io::Error,
    },
}

impl MigrationError {
    /// Returns a name for programs. Names are never changed.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Immutable => "immutable",
            Self::AppendOnly => "append_only",
            Self::SwapFile => "swap_file",
            Self::Sealed => "sealed",
            Self::Compressed => "compressed",
            Self::Encrypted => "encrypted",
            Self::Verity => "verity",
            Self::Dax => "dax",
            Self::Program => "program",
            Self::HeldByAnother => "held_by_another",
            Self::NotRegular => "not_regular",
            Self::NoSpace => "no_space",
            Self::FreeSpaceFragmented => "free_space_fragmented",
            Self::ReadOnly => "read_only",
            Self::Permission => "permission",
            Self::WrongFileSystem => "wrong_file_system",
            Self::NotOrdered => "not_ordered",
            Self::Unsupported => "unsupported",
            Self::NothingToGain => "nothing_to_gain",
            Self::Changed => "changed",
            Self::Io { .. } => "io",
        }
    }

    /// Returns true if only this range is affected: another one may be moved.
    pub fn is_of_range(&self) -> bool {
        matches!(
            self,
            Self::Shared
                | Self::Compressed
                | Self::Encrypted
                | Self::FreeSpaceFragmented
                | Self::NothingToGain
                | Self::Changed
        )
    }

    /// Gives an error of the system its reason.
    pub(crate) fn of(operation: &'static str, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        match source.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => Self::NoSpace,
            Some(libc::EROFS) => Self::ReadOnly,
            Some(libc::EPERM | libc::EACCES) => Self::Permission,
            Some(libc::EOPNOTSUPP | libc::ENOTTY | libc::EXDEV) => Self::Unsupported,
            _ => Self::Io { operation, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_have_their_reasons() {
        let name = |code| MigrationError::of("test", io::Error::from_raw_os_error(code)).name();
        assert_eq!(name(libc::ENOSPC), "no_space");
        assert_eq!(name(libc::EDQUOT), "no_space");
        assert_eq!(name(libc::EROFS), "read_only");
        assert_eq!(name(libc::EOPNOTSUPP), "unsupported");
        assert_eq!(name(libc::EIO), "io");
    }
}
