//! Defines the errors of a volume. Front ends translate them for their clients.
//!
//! Invariant: a kind exists only where a front end acts differently.

use std::error::Error;

/// Kind of an error, as a front end reports it to its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VolumeErrorKind {
    /// The request reaches past the end.
    #[error("the request reaches past the end of the volume")]
    OutOfRange,
    /// A write to a read-only volume.
    #[error("the volume is read-only")]
    ReadOnly,
    /// No space for the write.
    #[error("no space left")]
    NoSpace,
    /// The volume cannot do this.
    #[error("this volume does not support it")]
    Unsupported,
    /// The bytes are damaged or the device failed. Other ranges may still be readable.
    #[error("input/output error")]
    Io,
    /// The volume was deleted while it was open.
    #[error("the volume was deleted")]
    Deleted,
    /// A sync of the store failed. Nothing may be written until it is opened again.
    #[error("an earlier write failed: restart the server")]
    Failed,
}

/// An error with its cause.
#[derive(Debug, thiserror::Error)]
#[error("{kind}{}", because(.source.as_deref()))]
pub struct VolumeError {
    /// Kind to report to the client.
    pub kind: VolumeErrorKind,
    /// Cause, if there is more to say.
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

impl VolumeError {
    /// Makes an error of `kind` caused by `source`.
    pub fn new(kind: VolumeErrorKind, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            kind,
            source: Some(source.into()),
        }
    }
}

impl From<VolumeErrorKind> for VolumeError {
    fn from(kind: VolumeErrorKind) -> Self {
        Self { kind, source: None }
    }
}

/// Returns the text after the kind, if there is more to say.
fn because(source: Option<&(dyn Error + Send + Sync)>) -> String {
    source.map_or_else(String::new, |source| format!(": {source}"))
}
