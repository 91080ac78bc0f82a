//! Errors of the store. All crates of the engine return them.
//!
//! Invariant: a kind exists only if a caller acts differently on it. Facts are in fields.

use media::{MediaError, MediaErrorKind};
use std::fmt;

/// Selects what the caller does, and the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreErrorKind {
    /// There is no pool here.
    #[error("no pool")]
    NoPool,
    /// There is a pool already.
    #[error("a pool exists already")]
    PoolExists,
    /// Another live process writes to the pool.
    #[error("the pool is being written by another process")]
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
    #[error("the journal is full")]
    JournalFull,
    /// The name is taken.
    #[error("exists already")]
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
#[error("{kind}{}", details(.message, .source.as_ref()))]
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
        Self::new(
            StoreErrorKind::Corruption,
            format!("{what} at {at}: {found}"),
        )
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
            // The kind says everything about a lock that another process holds.
            source: Some(source).filter(|e| e.kind != MediaErrorKind::Locked),
        }
    }
}

/// Formats the text after the kind, if there is any.
fn details(message: &str, source: Option<&MediaError>) -> String {
    let mut details = String::new();
    if !message.is_empty() {
        details.push_str(": ");
        details.push_str(message);
    }
    if let Some(source) = source {
        details.push_str(": ");
        details.push_str(&source.to_string());
    }
    details
}
