//! Defines the errors of storage. Implementations of `Blobs` and `Disk` return them.
//!
//! Invariant: a kind exists only where a caller acts differently.

use std::io;
use units::OutOfRange;

/// Kind of an error: it determines the caller's reaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MediaErrorKind {
    /// No such name.
    #[error("not found")]
    NotFound,
    /// Put-if-absent lost: the name is taken.
    #[error("already exists")]
    Exists,
    /// Disk full or quota reached.
    #[error("no space left")]
    NoSpace,
    /// The location cannot be written (read-only file system, permissions).
    #[error("writing is not permitted")]
    ReadOnly,
    /// Another live process holds the lock.
    #[error("locked by another process")]
    Locked,
    /// The device failed.
    #[error("input/output error")]
    Io,
    /// An earlier write or sync failed. The state of the disk is unknown and nothing more is
    /// accepted. `source` has that failure's kind and text.
    #[error("an earlier write failed")]
    Poisoned,
}

/// A failed operation: the operation, the name, the reason.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.text())]
pub struct MediaError {
    /// Kind, which determines the caller's reaction.
    pub kind: MediaErrorKind,
    /// The operation, a verb ("put", "sync").
    pub operation: &'static str,
    /// Blob name or path within the pool.
    pub name: String,
    /// The system's error, if there is one.
    pub source: Option<io::Error>,
    /// Why the object was not touched, if it was refused.
    pub refusal: Option<Box<str>>,
}

impl MediaError {
    /// Classifies an error of the operating system.
    pub fn from_io(operation: &'static str, name: &str, source: io::Error) -> Self {
        Self {
            kind: kind_of(source.kind()),
            operation,
            name: name.to_owned(),
            source: Some(source),
            refusal: None,
        }
    }

    /// Returns true when the disk is full, or was full at the failure after which nothing is
    /// accepted.
    pub fn is_full(&self) -> bool {
        let source = self.source.as_ref().map(|e| kind_of(e.kind()));
        [Some(self.kind), source].contains(&Some(MediaErrorKind::NoSpace))
    }

    /// Makes an error for an object that this program did not make and does not touch.
    pub fn refused(operation: &'static str, name: &str, why: &str) -> Self {
        Self {
            refusal: Some(why.into()),
            ..Self::plain(MediaErrorKind::Io, operation, name)
        }
    }

    fn text(&self) -> String {
        let (operation, name) = (self.operation, &self.name);
        let reason = match (&self.refusal, &self.source, self.kind) {
            (Some(refusal), _, _) => return format!("refused to {operation} {name}: {refusal}"),
            (None, None, kind) => kind.to_string(),
            (None, Some(source), MediaErrorKind::Poisoned) => {
                format!("{} ({})", self.kind, units::reason(source))
            }
            (None, Some(source), _) => units::reason(source),
        };
        format!("cannot {operation} {name}: {reason}")
    }

    /// Makes an error without a system error behind it.
    pub fn plain(kind: MediaErrorKind, operation: &'static str, name: &str) -> Self {
        Self {
            kind,
            operation,
            name: name.to_owned(),
            source: None,
            refusal: None,
        }
    }
}

impl From<OutOfRange> for MediaError {
    fn from(fault: OutOfRange) -> Self {
        Self {
            source: Some(fault.into()),
            ..Self::plain(MediaErrorKind::Io, "prepare", "bytes")
        }
    }
}

fn kind_of(kind: io::ErrorKind) -> MediaErrorKind {
    match kind {
        io::ErrorKind::NotFound => MediaErrorKind::NotFound,
        io::ErrorKind::AlreadyExists => MediaErrorKind::Exists,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            MediaErrorKind::NoSpace
        }
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            MediaErrorKind::ReadOnly
        }
        io::ErrorKind::WouldBlock => MediaErrorKind::Locked,
        _ => MediaErrorKind::Io,
    }
}
