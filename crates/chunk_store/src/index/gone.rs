//! Deleted containers, whose entries are dropped when a bucket is written for another reason.
//! Garbage collection fills it after a deletion; merges read it.
//!
//! Invariant: it causes no I/O of its own. Its memory is bounded: beyond [`GONE_MAX`] the oldest
//! containers are forgotten, and their entries stay until the index is rebuilt. Entries of a key
//! with [`super::delta::PLACES_MAX`] places stay too.

use super::numbers::Numbers;
use parking_lot::Mutex;
use std::collections::{BTreeSet, VecDeque};
use units::ContainerId;

/// Maximum number of remembered containers.
const GONE_MAX: usize = 16 << 10;

/// See the module's head.
#[derive(Default)]
pub(super) struct Gone(Mutex<VecDeque<ContainerId>>);

impl Gone {
    pub(super) fn add(&self, containers: impl IntoIterator<Item = ContainerId>) {
        let mut gone = self.0.lock();
        gone.extend(containers);
        let beyond = gone.len().saturating_sub(GONE_MAX);
        gone.drain(..beyond);
    }

    /// Returns their container numbers in the file.
    pub(super) fn numbers(&self, numbers: &Numbers) -> BTreeSet<u32> {
        let gone = self.0.lock();
        gone.iter().filter_map(|id| numbers.number(*id)).collect()
    }
}
