//! The present list of snapshots that a mount shows. FindingsInput-ups above snapshots call this.
//!
//! Invariant: the catalog is read again only after a commit. While the list is unchanged, callers
//! get the same `Arc`, so that they can compare by pointer. If the catalog cannot be read, the last
//! list is shown.

use format::snapshot::Snapshot;
use parking_lot::Mutex;
use std::sync::Arc;
use store::{Pool, StoreError};
use units::Generation;

/// Selects snapshots.
pub type Filter = dyn Fn(&Snapshot) -> bool + Send + Sync;
/// Reports that some snapshots cannot be shown.
pub type TellMissing = dyn Fn(&StoreError) + Send + Sync;

/// The list. See the module's head.
pub struct SnapshotList {
    pool: Arc<Pool>,
    filter: Box<Filter>,
    tell: Box<TellMissing>,
    kept: Mutex<CachedList>,
}

#[derive(Default)]
struct CachedList {
    as_of: Option<Generation>,
    snapshots: Arc<Vec<Snapshot>>,
    /// The damage that was reported last.
    reported: Option<String>,
}

impl SnapshotList {
    /// Lists the snapshots of `pool` that pass `filter`. `tell` is called once for each new error.
    pub fn new(pool: Arc<Pool>, filter: Box<Filter>, tell: Box<TellMissing>) -> Self {
        Self {
            pool,
            filter,
            tell,
            kept: Mutex::default(),
        }
    }

    /// Returns the pool.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Returns true if nothing was committed since the list was read.
    pub fn is_current(&self) -> bool {
        self.kept.lock().as_of == Some(self.pool.generation())
    }

    /// Returns the list, oldest first.
    pub fn now(&self) -> Arc<Vec<Snapshot>> {
        // The generation is read first: the snapshots read after it are at least as new.
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
        let is_new = said.is_some() && said != kept.reported;
        if is_new {
            kept.reported = said;
        }
        let snapshots = Arc::clone(&kept.snapshots);
        drop(kept);
        if let (true, Some(damage)) = (is_new, &damage) {
            (self.tell)(damage);
        }
        snapshots
    }
}
