//! A pool that was opened for maintenance: with its volumes, if it has any. [`super::invocation`]
//! makes it; `gc` and `defrag` use it.
//!
//! Invariant: if there are volumes, their journal is open, because maintenance must know which
//! chunks it needs.

use server::state::OpenVolumes;
use store::Pool;

/// The object of maintenance.
pub(super) enum Opened {
    /// A pool without volumes.
    Pool(Box<Pool>),
    /// A pool with volumes, which know what their journal needs.
    Volumes(OpenVolumes),
}
