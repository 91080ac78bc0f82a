//! Deleted containers, whose entries are dropped when a bucket is written for another reason.
//! Garbage collection fills it after a deletion; merges read it.
//!
//! Invariant: it causes no I/O of its own. Its memory is bounded: beyond [`DELETED_MAX`] the oldest
//! containers are forgotten, and their entries stay until the index is rebuilt. Entries of a key
//! with [`super::delta::PLACES_MAX`] places stay too.

use super::numbers::Numbers;
use parking_lot::Mutex;
use std::collections::{BTreeSet, VecDeque};
use units::ContainerId;

/// Maximum number of remembered containers.
const DELETED_MAX: usize = 16 << 10;

/// See the module's head.
#[derive(Default)]
pub(super) struct Deleted(Mutex<VecDeque<ContainerId>>);

impl Deleted {
    pub(super) fn add(&self, containers: impl IntoIterator<Item = ContainerId>) {
        let mut deleted = self.0.lock();
        deleted.extend(containers);
        let beyond = deleted.len().saturating_sub(DELETED_MAX);
        deleted.drain(..beyond);
    }

    /// Returns their container numbers in the file.
    pub(super) fn numbers(&self, numbers: &Numbers) -> BTreeSet<u32> {
        let deleted = self.0.lock();
        deleted
            .iter()
            .filter_map(|id| numbers.number(*id))
            .collect()
    }
}
