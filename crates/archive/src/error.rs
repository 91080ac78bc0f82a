//! Errors that end a stream, an image or a restore. The program maps the kinds to exit codes in one
//! table.
//!
//! Invariant: a kind says which side failed, because exit codes depend on that. The message names
//! the path and the cause. There is no `source()`: a chain of causes would repeat it.

use crate::filesystem::PathError;
use store::StoreError;

/// See the module's head.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The source could not be read.
    #[error("{0}")]
    Source(PathError),
    /// The target could not be written.
    #[error("{0}")]
    Target(PathError),
    /// The pool failed, or the observer asked to stop.
    #[error("{0}")]
    Pool(StoreError),
}

impl From<StoreError> for ArchiveError {
    fn from(error: StoreError) -> Self {
        Self::Pool(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use media::{MediaError, MediaErrorKind};
    use std::error::Error;
    use std::io;

    #[test]
    fn the_words_have_the_cause_and_nothing_comes_after_them() {
        let path = || PathError::new("read", "/x", io::Error::other("why"));
        let full = || StoreError::from(MediaError::plain(MediaErrorKind::NoSpace, "put", "c1"));
        for (error, words) in [
            (
                ArchiveError::Source(path()),
                "cannot read /x: why".to_owned(),
            ),
            (
                ArchiveError::Target(path()),
                "cannot read /x: why".to_owned(),
            ),
            (full().into(), full().to_string()),
        ] {
            assert_eq!(error.to_string(), words);
            assert!(error.source().is_none());
        }
    }
}
