//! The one table from error kinds of the waist to errors of the protocol.
//!
//! Invariant: exhaustive, so a new kind does not compile until someone decided what a client is
//! told. Commands call this.

use crate::wire::replies::Errno;
use crate::wire::requests::Command;
use volume::VolumeErrorKind;

/// What the client of `command` is told about `kind`.
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
        // Not `Shutdown`: the client shall see its disk fail, not a server that says goodbye.
        VolumeErrorKind::Io | VolumeErrorKind::Failed => Errno::Io,
    }
}

/// Words for the message of a structured error; no facts that a client should not see.
pub(crate) fn words(errno: Errno) -> &'static str {
    match errno {
        Errno::NotPermitted => "export is read-only",
        Errno::Io => "input/output error",
        Errno::Invalid => "malformed request or out of range",
        Errno::NoSpace => "no space or past the end",
        Errno::Overflow => "request too large",
        Errno::NotSupported => "not supported",
        Errno::Shutdown => "server is going down",
    }
}
