//! Retired containers: no new reference to them is made until they are in the trash or taken back.
//! Garbage collection calls this.
//!
//! Invariant: a retired container that no commit puts into the trash is taken back when this is
//! dropped, however the run ended.

use super::GcPermit;
use crate::pool::Pool;
use chunk_store::chunk_map::ChunkMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use units::ContainerId;

/// See the module's head.
pub struct Retired {
    chunks: Arc<ChunkMap>,
    containers: BTreeSet<ContainerId>,
    _permit: GcPermit,
}

impl Retired {
    /// Retires these containers.
    pub fn new(
        pool: &Pool,
        permit: &GcPermit,
        containers: impl IntoIterator<Item = ContainerId>,
    ) -> Self {
        let containers: BTreeSet<_> = containers.into_iter().collect();
        let chunks = Arc::clone(pool.chunks());
        chunks.quarantine.retired.add(containers.iter().copied());
        Self {
            chunks,
            containers,
            _permit: permit.clone(),
        }
    }

    pub(super) fn holds(&self, id: ContainerId) -> bool {
        self.containers.contains(&id)
    }

    pub(super) fn take_back(&mut self, id: ContainerId) {
        if self.containers.remove(&id) {
            self.chunks.quarantine.retired.take_back(&[id]);
        }
    }

    /// Stops tracking them: the commit that trashes them begins, and it may stand even if it
    /// reports an error.
    pub(super) fn give_up(&mut self, ids: &[ContainerId]) {
        ids.iter().for_each(|id| {
            self.containers.remove(id);
        });
    }
}

impl Drop for Retired {
    fn drop(&mut self) {
        let containers: Vec<_> = self.containers.iter().copied().collect();
        self.chunks.quarantine.retired.take_back(&containers);
    }
}
