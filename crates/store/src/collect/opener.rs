//! Checks regions that were read and will be packed, large ones in another thread. `copy` calls
//! this.
//!
//! Invariant: regions come out in the order in which they went in. The thread affects only time: it
//! accesses neither device nor pool. Small regions stay with the caller, because passing them on
//! takes as long as checking them. Without large regions no thread is started.

use super::region::{LookedRegion, ReadRegion};
use crate::worker::Worker;
use chunk_store::container::ContainerReader;
use chunk_store::{Result, StoreError, StoreErrorKind};
use std::collections::VecDeque;
use std::sync::Arc;

/// Stored size from which a region goes to the thread, bytes.
const LARGE_BYTES: usize = 128 << 10;

/// See the module's head.
pub(super) struct Opener {
    containers: Arc<ContainerReader>,
    helper: Option<Worker<ReadRegion, LookedRegion>>,
    /// Regions in order, the oldest first.
    waiting: VecDeque<Waiting>,
}

enum Waiting {
    Here(ReadRegion),
    AtHelper,
}

impl Opener {
    pub fn new(containers: &Arc<ContainerReader>) -> Self {
        Self {
            containers: Arc::clone(containers),
            helper: None,
            waiting: VecDeque::new(),
        }
    }

    /// Returns how many regions went in and have not come out.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Drops all regions and ends the thread.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.helper = None;
    }

    /// Takes a region. The caller limits their number.
    pub fn push(&mut self, region: ReadRegion) {
        if region.len() < LARGE_BYTES {
            return self.waiting.push_back(Waiting::Here(region));
        }
        let helper = match self.helper.take() {
            Some(helper) => Some(helper),
            None => {
                let containers = Arc::clone(&self.containers);
                Worker::start("gc-open", move |region: ReadRegion| {
                    region.look(&containers)
                })
                .ok()
            }
        };
        let refused = match &helper {
            Some(helper) => helper.give(region).err(),
            None => Some(region),
        };
        self.helper = helper;
        self.waiting.push_back(match refused {
            Some(region) => Waiting::Here(region),
            None => Waiting::AtHelper,
        });
    }

    /// Returns the oldest region, checked, or `None` if there is none.
    pub fn pop(&mut self) -> Result<Option<LookedRegion>> {
        match self.waiting.pop_front() {
            None => Ok(None),
            Some(Waiting::Here(region)) => Ok(Some(region.look(&self.containers))),
            Some(Waiting::AtHelper) => {
                let looked = self.helper.as_ref().and_then(Worker::take);
                let why = "the thread that opens regions has ended";
                looked
                    .map(Some)
                    .ok_or_else(|| StoreError::new(StoreErrorKind::Invalid, why))
            }
        }
    }
}
