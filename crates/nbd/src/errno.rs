//! Maps error kinds of volumes to errors of the protocol. Commands call this.
//!
//! Invariant: the table is exhaustive, so a new kind does not compile until its error is chosen.
//! There is no second table.

use crate::wire::replies::Errno;
use crate::wire::requests::Command;
use volume::VolumeErrorKind;

/// Returns the error that the client of `command` gets for `kind`.
pub(crate) fn errno(command: Command, kind: VolumeErrorKind) -> Errno {
    match kind {
        VolumeErrorKind::OutOfRange => match command {
            Command::Write | Command::WriteZeroes => Errno::NoSpace,
            Command::Read
            | Command::Disconnect
            | Command::Flush
            | Command::Trim
            | Command::Cache
            | Command::BlockStatus => Errno::Invalid,
        },
        VolumeErrorKind::ReadOnly => Errno::NotPermitted,
        VolumeErrorKind::NoSpace => Errno::NoSpace,
        VolumeErrorKind::Unsupported => Errno::NotSupported,
        // Not `Shutdown`: the client must see a failing disk, not an orderly end of the server.
        VolumeErrorKind::Io | VolumeErrorKind::Deleted | VolumeErrorKind::Failed => Errno::Io,
    }
}

/// Returns the text of a structured error. It contains nothing that a client should not see.
pub(crate) fn words(errno: Errno) -> &'static str {
    match errno {
        Errno::NotPermitted => "the export is read-only",
        Errno::Io => "input/output error",
        Errno::Invalid => "the request is malformed or out of range",
        Errno::NoSpace => "no space is left, or the request reaches past the end",
        Errno::Overflow => "the request is too large",
        Errno::NotSupported => "not supported",
        Errno::Shutdown => "the server is stopping",
    }
}
