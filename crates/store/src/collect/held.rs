//! Roots that clients of this process have open and that the catalog does not name any more. The
//! mark calls this.
//!
//! Invariant: they are marked after everything that the catalog names. Damage below them ends no
//! run: clients cannot read below it either, and nothing else needs what only they reach.

use crate::pool::{Pool, SnapshotName};
use crate::space::Marking;
use format::recipe::ObjectRoot;
use std::collections::BTreeMap;
use std::mem::take;

/// Counts of what is live only because clients of this process have purged snapshots open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldCounts {
    /// Purged snapshots whose roots were marked.
    pub snapshots: u64,
    /// Containers that only these snapshots need.
    pub containers: u64,
    /// Length of the chunks that only these snapshots need, bytes.
    pub bytes: u64,
}

/// See the module's head.
pub(super) struct HeldRoots {
    /// Roots that the catalog has not named so far, and true for directories.
    roots: BTreeMap<SnapshotName, (ObjectRoot, bool)>,
    /// Containers and bytes that were live before any of them was marked.
    without: Option<(u64, u64)>,
    counts: HeldCounts,
}

impl HeldRoots {
    /// Returns the roots that are open now.
    pub fn of(pool: &Pool) -> Self {
        Self {
            roots: pool.holders().open_roots(),
            without: None,
            counts: HeldCounts::default(),
        }
    }

    /// Drops a root that the catalog names, because it is marked anyway.
    pub fn is_named(&mut self, snapshot: SnapshotName) {
        self.roots.remove(&snapshot);
    }

    /// Returns what only they need, as far as it was counted.
    pub fn counts(&self) -> HeldCounts {
        self.counts
    }

    /// Does the next step when `marking` is idle: adds the roots, then counts what only they need.
    /// Returns true if nothing more must be marked.
    pub fn follow(&mut self, marking: &mut Marking) -> bool {
        let live = (marking.live.containers(), marking.live.bytes);
        if let Some((containers, bytes)) = self.without {
            self.counts.containers = live.0 - containers;
            self.counts.bytes = live.1 - bytes;
            return true;
        }
        if self.roots.is_empty() {
            return true;
        }
        self.counts.snapshots = self.roots.len() as u64;
        self.without = Some(live);
        marking.go_past_damage();
        for (root, is_tree) in take(&mut self.roots).into_values() {
            marking.push(&root, is_tree);
        }
        false
    }
}
