//! Errors of the waist: a kind exists only where a front end acts differently.

use std::error::Error;
use std::fmt;

/// What a front end tells its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeErrorKind {
    /// The request reaches past the end.
    OutOfRange,
    /// A write to a read-only volume.
    ReadOnly,
    /// No space for the write.
    NoSpace,
    /// The volume cannot do this.
    Unsupported,
    /// The bytes are damaged or the device failed; other ranges may still be fine.
    Io,
    /// The store failed a sync: nothing may be written until it is opened again.
    Failed,
}

/// An error with its cause kept.
#[derive(Debug)]
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

impl fmt::Display for VolumeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            VolumeErrorKind::OutOfRange => "request reaches past the end of the volume",
            VolumeErrorKind::ReadOnly => "volume is read-only",
            VolumeErrorKind::NoSpace => "no space left",
            VolumeErrorKind::Unsupported => "not supported by this volume",
            VolumeErrorKind::Io => "input/output error",
            VolumeErrorKind::Failed => "store failed and must be opened again",
        };
        f.write_str(what)?;
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl Error for VolumeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|e| e as &(dyn Error + 'static))
    }
}
