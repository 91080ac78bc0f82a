//! Containers that are gone for good: what the index knows of them is dropped where a bucket is written anyway.
//!
//! Invariant: costs no I/O of its own, and a bounded memory: beyond it the first that went are forgotten, and their
//! entries stay until the index is made anew. What stands for places that may have been let go stays too. Filled when the collector has deleted; asked by merges.

use super::numbers::Numbers;
use parking_lot::Mutex;
use std::collections::{BTreeSet, VecDeque};
use units::ContainerId;

/// Containers that are remembered at most.
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

    /// As the entries of a file call them.
    pub(super) fn numbers(&self, numbers: &Numbers) -> BTreeSet<u32> {
        let gone = self.0.lock();
        gone.iter().filter_map(|id| numbers.number(*id)).collect()
    }
}
