//! Roots that clients of this process have open, as far as the catalog does not name them any more.
//!
//! Invariant: marked after everything that the catalog names. Damage to them ends no run: clients
//! cannot read below it either, and nothing else needs what only they reach. Called by the collector.

use super::GcCounts;
use crate::pool::{Pool, SnapshotName};
use crate::space::Marking;
use format::recipe::ObjectRoot;
use std::collections::BTreeMap;
use std::mem::take;

/// See the module's head.
#[derive(Default)]
pub(super) struct HeldRoots {
    /// Those that the catalog did not name so far, and whether they are directories.
    roots: BTreeMap<SnapshotName, (ObjectRoot, bool)>,
    /// Containers and plain bytes that were live before any of them was marked.
    without: Option<(u64, u64)>,
}

impl HeldRoots {
    /// Those that are open now.
    pub fn of(pool: &Pool) -> Self {
        Self {
            roots: pool.open_roots(),
            without: None,
        }
    }

    /// The catalog names this one: it is marked anyway.
    pub fn is_named(&mut self, snapshot: SnapshotName) {
        self.roots.remove(&snapshot);
    }

    /// Takes the next step when `marking` has nothing to do: adds the roots, then counts what only they need.
    /// True when there is nothing more to mark.
    pub fn follow(&mut self, marking: &mut Marking, counts: &mut GcCounts) -> bool {
        let live = (marking.live.containers(), marking.live.bytes);
        if let Some((containers, bytes)) = self.without {
            counts.held_containers = live.0 - containers;
            counts.held_bytes = live.1 - bytes;
            return true;
        }
        if self.roots.is_empty() {
            return true;
        }
        counts.held_snapshots = self.roots.len() as u64;
        self.without = Some(live);
        marking.go_past_damage();
        for (root, is_tree) in take(&mut self.roots).into_values() {
            marking.push(&root, is_tree);
        }
        false
    }
}
