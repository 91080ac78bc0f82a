//! Errors of the store: a kind exists only where a caller acts differently.

use media::{MediaError, MediaErrorKind};
use std::fmt;

/// What the caller (and the exit code) does about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreErrorKind {
    /// There is no pool here.
    #[error("no pool")]
    NoPool,
    /// There is one already.
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
    /// Stored bytes are not what was written.
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
    /// The request makes no sense (facts in `message`).
    #[error("invalid")]
    Invalid,
    /// Storage failed (`source` says how).
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
    /// What the caller does about it.
    pub kind: StoreErrorKind,
    /// What was wanted or found, for humans. For corruption: what, at, expected, found.
    pub message: String,
    /// The cause below.
    pub source: Option<MediaError>,
}

/// Shorthand of the rooms of the engine.
pub type Result<T> = std::result::Result<T, StoreError>;

impl StoreError {
    /// An error with a message and no deeper cause.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    /// Corruption: what is damaged, where, and how it shows.
    pub fn corruption(what: &str, at: impl fmt::Display, found: impl fmt::Display) -> Self {
        Self::new(
            StoreErrorKind::Corruption,
            format!("{what} at {at}: {found}"),
        )
    }

    /// There is no room for something, for a reason that is not the disk's own.
    pub fn no_space(why: &str) -> Self {
        Self::new(StoreErrorKind::Media(MediaErrorKind::NoSpace), why)
    }

    /// True when the disk is full, or was when that failed after which nothing is accepted.
    pub fn is_full(&self) -> bool {
        self.kind == StoreErrorKind::Media(MediaErrorKind::NoSpace)
            || self.source.as_ref().is_some_and(MediaError::is_full)
    }

    /// True when stored bytes are damaged or gone.
    pub fn is_corruption(&self) -> bool {
        self.kind == StoreErrorKind::Corruption
    }
}

impl From<MediaError> for StoreError {
    fn from(source: MediaError) -> Self {
        let kind = match source.kind {
            // A name that was to be new is another writer's.
            MediaErrorKind::Locked | MediaErrorKind::Exists => StoreErrorKind::Locked,
            kind => StoreErrorKind::Media(kind),
        };
        Self {
            kind,
            message: String::new(),
            // The kind says all there is to say about a lock that is held.
            source: Some(source).filter(|e| e.kind != MediaErrorKind::Locked),
        }
    }
}

/// What follows the kind, as far as there is anything.
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
