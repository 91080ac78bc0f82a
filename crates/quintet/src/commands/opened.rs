//! A pool as maintenance commands have opened it: with its volumes, if it has any.
//!
//! Invariant: with volumes, their journal is open: collectors must know what it needs. Made by
//! [`super::invocation`], taken apart by `gc` and `defrag`.

use server::held::OpenVolumes;
use store::Pool;

/// What a collector works on.
pub(super) enum Opened {
    /// A pool without volumes.
    Pool(Box<Pool>),
    /// Its volumes too: they know what their journal needs.
    Volumes(OpenVolumes),
}
