//! Errors of the store: a kind exists only where a caller acts differently.

use media::{MediaError, MediaErrorKind};
use std::fmt;

/// What the caller (and the exit code) does about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// There is no pool here.
    NoPool,
    /// There is one already.
    PoolExists,
    /// Another live process writes to the pool.
    Locked,
    /// No key slot opens with this secret.
    WrongKey,
    /// The pool needs a feature that this program does not have.
    Unsupported,
    /// Stored bytes are not what was written.
    Corruption,
    /// No such snapshot, path or chunk.
    NotFound,
    /// The journal has no space until a checkpoint trims it.
    JournalFull,
    /// The name is taken.
    Exists,
    /// The request makes no sense (facts in `message`).
    Invalid,
    /// Storage failed (`source` says how).
    Media(MediaErrorKind),
    /// The user asked to stop.
    Interrupted,
}

/// An error with its facts in fields.
#[derive(Debug)]
pub struct StoreError {
    /// What the caller does about it.
    pub kind: StoreErrorKind,
    /// What was wanted or found, for humans. For corruption: what, at, expected, found.
    pub message: String,
    /// The cause below.
    pub source: Option<MediaError>,
}

/// Shorthand of this crate.
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
    pub(crate) fn no_space(why: &str) -> Self {
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

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            StoreErrorKind::NoPool => "no pool",
            StoreErrorKind::PoolExists => "a pool exists already",
            StoreErrorKind::Locked => "the pool is being written by another process",
            StoreErrorKind::WrongKey => "wrong password or key",
            StoreErrorKind::Unsupported => "not supported",
            StoreErrorKind::Corruption => "corruption",
            StoreErrorKind::NotFound => "not found",
            StoreErrorKind::JournalFull => "the journal is full",
            StoreErrorKind::Exists => "exists already",
            StoreErrorKind::Invalid => "invalid",
            StoreErrorKind::Media(_) => "storage",
            StoreErrorKind::Interrupted => "interrupted",
        };
        f.write_str(what)?;
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|e| e as _)
    }
}
