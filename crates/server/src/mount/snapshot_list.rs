//! The snapshots that a mount shows, as they are now.
//!
//! Invariant: read again only after a commit; while nothing changed it is the same list, so that
//! who made something of it can tell. A catalog that cannot be read shows what was shown before.
//! Called at every look at a name above snapshots.

use format::snapshot::Snapshot;
use parking_lot::Mutex;
use std::sync::Arc;
use store::{Pool, StoreError};
use units::Generation;

/// Which snapshots are meant.
pub type Filter = dyn Fn(&Snapshot) -> bool + Send + Sync;
/// Tells the user that some snapshots cannot be shown.
pub type TellMissing = dyn Fn(&StoreError) + Send + Sync;

/// See the module's head.
pub struct SnapshotList {
    pool: Arc<Pool>,
    filter: Box<Filter>,
    tell: Box<TellMissing>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    as_of: Option<Generation>,
    snapshots: Arc<Vec<Snapshot>>,
    /// The damage that was told last.
    told: Option<String>,
}

impl SnapshotList {
    /// Those of `pool` that pass `filter`; `tell` hears of damage once.
    pub fn new(pool: Arc<Pool>, filter: Box<Filter>, tell: Box<TellMissing>) -> Self {
        Self {
            pool,
            filter,
            tell,
            kept: Mutex::default(),
        }
    }

    /// The pool that they are in.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// True if nothing was committed since they were read.
    pub fn is_current(&self) -> bool {
        self.kept.lock().as_of == Some(self.pool.generation())
    }

    /// Oldest first.
    pub fn now(&self) -> Arc<Vec<Snapshot>> {
        // What is read after this is at least as new.
        let generation = self.pool.generation();
        {
            let kept = self.kept.lock();
            if kept.as_of == Some(generation) {
                return Arc::clone(&kept.snapshots);
            }
        }
        let (read, damage) = match self.pool.snapshots_readable() {
            Ok((snapshots, damage)) => (Some(snapshots), damage),
            Err(e) => (None, Some(e)),
        };
        let mut kept = self.kept.lock();
        if let Some(mut snapshots) = read {
            snapshots.retain(|snapshot| (self.filter)(snapshot));
            if *kept.snapshots != snapshots {
                kept.snapshots = Arc::new(snapshots);
            }
            kept.as_of = Some(generation);
        }
        let said = damage.as_ref().map(StoreError::to_string);
        let is_new = said.is_some() && said != kept.told;
        if is_new {
            kept.told = said;
        }
        let snapshots = Arc::clone(&kept.snapshots);
        drop(kept);
        if let (true, Some(damage)) = (is_new, &damage) {
            (self.tell)(damage);
        }
        snapshots
    }
}
