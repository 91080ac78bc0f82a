//! Roots that clients of this process have open, as far as the catalog does not name them any more.
//!
//! Invariant: marked after everything that the catalog names. Damage to them ends no run: clients
//! cannot read below it either, and nothing else needs what only they reach. Called by the mark.

use crate::pool::{Pool, SnapshotName};
use crate::space::Marking;
use format::recipe::ObjectRoot;
use std::collections::BTreeMap;
use std::mem::take;

/// What is live only because clients of this process have purged snapshots open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldCounts {
    /// Purged snapshots whose roots were marked.
    pub snapshots: u64,
    /// Containers of which only these snapshots need something.
    pub containers: u64,
    /// Plain bytes of chunks that only these snapshots need.
    pub bytes: u64,
}

/// See the module's head.
pub(super) struct HeldRoots {
    /// Those that the catalog did not name so far, and whether they are directories.
    roots: BTreeMap<SnapshotName, (ObjectRoot, bool)>,
    /// Containers and plain bytes that were live before any of them was marked.
    without: Option<(u64, u64)>,
    counts: HeldCounts,
}

impl HeldRoots {
    /// Those that are open now.
    pub fn of(pool: &Pool) -> Self {
        Self {
            roots: pool.open_roots(),
            without: None,
            counts: HeldCounts::default(),
        }
    }

    /// The catalog names this one: it is marked anyway.
    pub fn is_named(&mut self, snapshot: SnapshotName) {
        self.roots.remove(&snapshot);
    }

    /// What only they need, as far as it was counted.
    pub fn counts(&self) -> HeldCounts {
        self.counts
    }

    /// Takes the next step when `marking` has nothing to do: adds the roots, then counts what only they need.
    /// True when there is nothing more to mark.
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
