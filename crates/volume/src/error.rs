//! Errors of the waist: a kind exists only where a front end acts differently.

use std::error::Error;

/// What a front end tells its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VolumeErrorKind {
    /// The request reaches past the end.
    #[error("request reaches past the end of the volume")]
    OutOfRange,
    /// A write to a read-only volume.
    #[error("volume is read-only")]
    ReadOnly,
    /// No space for the write.
    #[error("no space left")]
    NoSpace,
    /// The volume cannot do this.
    #[error("not supported by this volume")]
    Unsupported,
    /// The bytes are damaged or the device failed; other ranges may still be fine.
    #[error("input/output error")]
    Io,
    /// The store failed a sync: nothing may be written until it is opened again.
    #[error("store failed and must be opened again")]
    Failed,
}

/// An error with its cause kept.
#[derive(Debug, thiserror::Error)]
#[error("{kind}{}", because(.source.as_deref()))]
pub struct VolumeError {
    /// What to tell the client.
    pub kind: VolumeErrorKind,
    /// Why, when there is more to say.
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

impl VolumeError {
    /// An error of `kind` caused by `source`.
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

/// What follows the kind, if there is more to say.
fn because(source: Option<&(dyn Error + Send + Sync)>) -> String {
    source.map_or_else(String::new, |source| format!(": {source}"))
}
