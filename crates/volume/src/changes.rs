//! What differs between a volume and an earlier state of it.
//!
//! Invariant: a piece that is not `changed` holds the same bytes as it did in the earlier state;
//! the reverse need not hold, because volumes know changes by chunk, not by byte. Front ends ask
//! [`crate::TrackChanges::changes_since`]; volumes that keep their history implement it.

use crate::{RequestContext, VolumeError};
use std::ops::ControlFlow;

/// A piece of a volume: what [`Changes::pieces`] visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// First byte.
    pub offset_bytes: u64,
    /// Length in bytes, never 0.
    pub len_bytes: u64,
    /// May differ from the earlier state, or lies past its end.
    pub changed: bool,
}

/// The differences between a volume and one earlier state of it.
///
/// Follows the volume: writes that were acknowledged before a call are in its answer. May be
/// called from many threads at once, and keeps the earlier state readable for as long as it
/// lives, even if its name is deleted.
pub trait Changes: Send + Sync {
    /// Visits the pieces that cover the range, in order and without gaps, until the visitor
    /// breaks. The rules are those of [`crate::Volume::extents`]; whoever calls this goes
    /// through [`crate::Checked::changes`], which checks them.
    fn pieces(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        visit: &mut dyn FnMut(Change) -> ControlFlow<()>,
    ) -> Result<(), VolumeError>;
}
