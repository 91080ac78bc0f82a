//! Errors of the store. All crates of the engine return them.
//!
//! Invariant: a kind exists only if a caller acts differently on it. Facts are in fields.

use media::{MediaError, MediaErrorKind};
use std::fmt;
use units::OutOfRange;

/// Selects what the caller does, and the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreErrorKind {
    /// There is no pool here.
    #[error("there is no pool here. Is its disk mounted? Create a new one with quintet init")]
    NoPool,
    /// There is a pool already.
    #[error("a pool exists there")]
    PoolExists,
    /// Another live process writes to the pool.
    #[error("another process writes to the pool; wait for it, or stop it")]
    Locked,
    /// No key slot opens with this secret.
    #[error("wrong password or key")]
    WrongKey,
    /// The pool needs a feature that this program does not have.
    #[error("not supported")]
    Unsupported,
    /// Stored bytes differ from the bytes that were written.
    #[error("corruption")]
    Corruption,
    /// No such snapshot, path or chunk.
    #[error("not found")]
    NotFound,
    /// The journal has no space until a checkpoint trims it.
    #[error("the journal is full; a checkpoint frees it")]
    JournalFull,
    /// The name is taken.
    #[error("exists")]
    Exists,
    /// The request makes no sense (`message` has the facts).
    #[error("invalid")]
    Invalid,
    /// Storage failed (`source` has the cause).
    #[error("storage")]
    Media(MediaErrorKind),
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// An error with its facts in fields.
#[derive(Debug, thiserror::Error)]
#[error("{}", text(*kind, message, source.as_ref()))]
pub struct StoreError {
    /// Selects what the caller does.
    pub kind: StoreErrorKind,
    /// The wanted or found object, for humans. For corruption: object, place, expected, found.
    pub message: String,
    /// The cause from the layer below.
    pub source: Option<MediaError>,
}

/// Result type of the engine's crates.
pub type Result<T> = std::result::Result<T, StoreError>;

impl StoreError {
    /// Creates an error with a message and no source.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    /// Creates a corruption error: the damaged object, its place, and how the damage shows.
    pub fn corruption(what: &str, at: impl fmt::Display, found: impl fmt::Display) -> Self {
        let found = found.to_string();
        // Errors of the format name the object too.
        let found = found
            .strip_prefix(what)
            .and_then(|rest| rest.strip_prefix(": "))
            .unwrap_or(&found);
        let at = at.to_string();
        let message = match at == what {
            true => format!("{what}: {found}"),
            false => format!("{what} at {at}: {found}"),
        };
        Self::new(StoreErrorKind::Corruption, message)
    }

    /// Creates an error of missing space that the disk itself did not report.
    pub fn no_space(why: &str) -> Self {
        Self::new(StoreErrorKind::Media(MediaErrorKind::NoSpace), why)
    }

    /// Returns true if the disk is full, or was full at the failure after which nothing is
    /// accepted.
    pub fn is_full(&self) -> bool {
        self.kind == StoreErrorKind::Media(MediaErrorKind::NoSpace)
            || self.source.as_ref().is_some_and(MediaError::is_full)
    }

    /// Returns true if stored bytes are damaged or missing.
    pub fn is_corruption(&self) -> bool {
        self.kind == StoreErrorKind::Corruption
    }
}

impl From<OutOfRange> for StoreError {
    fn from(fault: OutOfRange) -> Self {
        Self::new(StoreErrorKind::Invalid, fault.to_string())
    }
}

impl From<MediaError> for StoreError {
    fn from(source: MediaError) -> Self {
        let kind = match source.kind {
            // A name that should be new belongs to another writer.
            MediaErrorKind::Locked | MediaErrorKind::Exists => StoreErrorKind::Locked,
            kind => StoreErrorKind::Media(kind),
        };
        Self {
            kind,
            message: String::new(),
            // The kind says everything about a lock, unless it is known who holds it.
            source: Some(source)
                .filter(|e| e.kind != MediaErrorKind::Locked || e.refusal.is_some()),
        }
    }
}

/// Joins what the parts say, each fact once.
fn text(kind: StoreErrorKind, message: &str, source: Option<&MediaError>) -> String {
    let kind_text = kind.to_string();
    let says_all = match kind {
        StoreErrorKind::Invalid
        | StoreErrorKind::NotFound
        | StoreErrorKind::NoPool
        | StoreErrorKind::Media(_) => true,
        StoreErrorKind::PoolExists
        | StoreErrorKind::Locked
        | StoreErrorKind::WrongKey
        | StoreErrorKind::Unsupported
        | StoreErrorKind::Corruption
        | StoreErrorKind::JournalFull
        | StoreErrorKind::Exists
        | StoreErrorKind::Interrupted => false,
    };
    let source = source.map(MediaError::to_string);
    let details: Vec<&str> = [Some(message), source.as_deref()]
        .into_iter()
        .flatten()
        .filter(|detail| !detail.is_empty())
        .collect();
    match (kind, details.join(": ")) {
        (_, details) if details.is_empty() => kind_text,
        (StoreErrorKind::Exists, details) => format!("{details} {kind_text}"),
        (_, details) if says_all => details,
        (_, details) => format!("{kind_text}: {details}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fact_is_said_once() {
        let error = |kind, message: &str| StoreError::new(kind, message).to_string();
        assert_eq!(
            error(StoreErrorKind::Invalid, "no such size"),
            "no such size"
        );
        assert_eq!(
            error(StoreErrorKind::Exists, "volume \"a\""),
            "volume \"a\" exists"
        );
        assert_eq!(
            error(StoreErrorKind::Corruption, "chunk"),
            "corruption: chunk"
        );
        assert_eq!(error(StoreErrorKind::Corruption, ""), "corruption");
        let damaged = |at| StoreError::corruption("config", at, "config: it is truncated");
        let damaged = ["config", "c1"].map(|at| damaged(at).to_string());
        assert_eq!(damaged[0], "corruption: config: it is truncated");
        assert_eq!(damaged[1], "corruption: config at c1: it is truncated");
        let full = MediaError::plain(MediaErrorKind::NoSpace, "write", "POOL/c1");
        let full = StoreError::from(full).to_string();
        assert_eq!(full, "cannot write POOL/c1: no space left");
    }
}
