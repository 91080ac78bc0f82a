//! Describes the differences between a volume and an earlier state of it.
//!
//! Front ends ask [`crate::TrackChanges::changes_since`]; volumes that keep their history implement
//! it.
//! Invariant: a piece that is not `changed` holds the same bytes as in the earlier state. The
//! reverse need not hold, because volumes track changes by chunk, not by byte.

use crate::{RequestContext, VolumeError};
use std::ops::ControlFlow;

/// A piece of a volume, as [`Changes::pieces`] visits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// First byte.
    pub offset_bytes: u64,
    /// Length in bytes, never 0.
    pub len_bytes: u64,
    /// The piece may differ from the earlier state, or lies past its end.
    pub changed: bool,
}

/// The differences between a volume and one earlier state of it.
///
/// They follow the volume: an answer includes all writes that were acknowledged before the call.
/// Many threads may call this at once. The earlier state stays readable as long as this lives, even
/// if its name is deleted.
pub trait Changes: Send + Sync {
    /// Visits the pieces that cover the range, in order and without gaps, until the visitor breaks.
    ///
    /// The rules are those of [`crate::Volume::extents`]. Call this through
    /// [`crate::Checked::changes`], which checks them.
    fn pieces(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        visit: &mut dyn FnMut(Change) -> ControlFlow<()>,
    ) -> Result<(), VolumeError>;
}
