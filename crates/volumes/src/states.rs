//! Names the states with which a volume or an image can be compared.
//!
//! Handles call this. So does the server for volumes and images that it serves read-only.
//! Invariant: each call asks the pool, so new snapshots appear and forgotten ones do not. Own
//! states have short names: NAME of VOLUME@NAME, or the first digits of an image's snapshot. States
//! of other objects, such as the origin of a clone, have full names: VOLUME@NAME, IMAGE@DIGITS.

use format::recipe::ObjectRoot;
use format::snapshot::{Snapshot, SnapshotKind};
use std::sync::Arc;
use store::ObjectHistory;
use store::Pool;

/// Number of a snapshot's digits that name a state of an image.
const DIGITS: usize = 8;

/// The states of one volume or image. See the module's head.
#[derive(Clone)]
pub struct States {
    pool: Arc<Pool>,
    kind: SnapshotKind,
    name: String,
}

impl States {
    /// Returns the states of the volume or image called `name`.
    pub fn new(pool: Arc<Pool>, kind: SnapshotKind, name: &str) -> Self {
        Self {
            pool,
            kind,
            name: name.to_owned(),
        }
    }

    /// Returns the states of the volume or image of which `snapshot` is a state.
    pub fn beside(pool: Arc<Pool>, snapshot: &Snapshot) -> Self {
        let name = whole(snapshot).map_or(String::new(), |(name, _)| name.to_owned());
        Self::new(pool, snapshot.kind, &name)
    }

    /// Returns the readable snapshots, newest first.
    fn snapshots(&self) -> Vec<Snapshot> {
        let (mut snapshots, _) = self.pool.snapshots_readable().unwrap_or_default();
        snapshots.reverse();
        snapshots
    }

    fn own<'a>(&self, snapshot: &'a Snapshot) -> Option<std::borrow::Cow<'a, str>> {
        let (name, state) = whole(snapshot)?;
        (snapshot.kind == self.kind && name == self.name).then_some(state)
    }
}

/// Returns the names of the object and of the state; `None` if the snapshot is no disk.
fn whole(snapshot: &Snapshot) -> Option<(&str, std::borrow::Cow<'_, str>)> {
    match snapshot.kind {
        SnapshotKind::Volume => {
            let (name, state) = snapshot.name.rsplit_once('@')?;
            Some((name, state.into()))
        }
        SnapshotKind::Image => {
            let mut digits = snapshot.id.to_string();
            digits.truncate(DIGITS);
            Some((&snapshot.name, digits.into()))
        }
        SnapshotKind::Tree | SnapshotKind::Stream => None,
    }
}

impl ObjectHistory for States {
    fn names(&self, count_max: usize) -> Vec<String> {
        let snapshots = self.snapshots();
        let own = snapshots.iter().filter_map(|s| self.own(s));
        own.take(count_max).map(|name| name.into_owned()).collect()
    }

    fn root(&self, name: &str) -> Option<ObjectRoot> {
        let snapshots = self.snapshots();
        let own = snapshots
            .iter()
            .find(|s| self.own(s).is_some_and(|n| n == name));
        let is_whole = |s: &&Snapshot| {
            whole(s).is_some_and(|(of, state)| name.rsplit_once('@') == Some((of, &*state)))
        };
        let found = own.or_else(|| snapshots.iter().find(is_whole))?;
        Some(found.root)
    }
}
