//! Errors of reading containers. The reader and its parts call this.
//!
//! Invariant: an error names the container or the region.

use super::{RegionPlace, container_name};
use crate::error::StoreError;
use format::bytes::FormatError;
use media::{MediaError, MediaErrorKind};

/// Maps a missing, short or unreadable blob to corruption, so that a restore goes on with the rest.
/// The error keeps its source.
pub(super) fn unreadable(name: &str, e: MediaError) -> StoreError {
    let short = e
        .source
        .as_ref()
        .is_some_and(|s| s.kind() == std::io::ErrorKind::UnexpectedEof);
    match e.kind {
        MediaErrorKind::NotFound => StoreError::corruption("container", name, "missing"),
        MediaErrorKind::Io if short => {
            StoreError::corruption("container", name, "the file is too short")
        }
        MediaErrorKind::Io => StoreError {
            source: Some(e),
            ..StoreError::corruption("container", name, "cannot be read")
        },
        _ => e.into(),
    }
}

pub(super) fn is_media_failure(e: &StoreError) -> bool {
    !e.is_corruption()
}

pub(super) fn damaged(at: &str, e: FormatError) -> StoreError {
    StoreError::corruption(e.what, at, e)
}

pub(super) fn place_error(place: RegionPlace, found: impl std::fmt::Display) -> StoreError {
    let at = format!(
        "{} sector {}",
        container_name(place.container),
        place.sector
    );
    StoreError::corruption("region", at, found)
}
