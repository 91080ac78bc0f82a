//! Snapshots that both pools have, found by their identifiers of sixteen random bytes. Replication
//! uses them; so do repairs, whose own pool is "here".
//!
//! Invariant: both objects of a pair have the same bytes, because a snapshot never changes. Each
//! pool has its own fingerprints for them.

use format::recipe::ObjectRoot;
use format::snapshot::{Snapshot, SnapshotKind};
use std::collections::BTreeMap;

/// The same bytes in two pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    /// In the source pool.
    pub here: ObjectRoot,
    /// In the receiving pool.
    pub there: ObjectRoot,
}

/// See the module's head.
pub(crate) struct Pairs {
    here: Vec<Snapshot>,
    /// By their keys in the catalog: time and identifier.
    there: BTreeMap<Vec<u8>, Snapshot>,
}

impl Pairs {
    pub fn new(here: Vec<Snapshot>, there: Vec<Snapshot>) -> Self {
        Self {
            here,
            there: there.into_iter().map(|s| (s.key(), s)).collect(),
        }
    }

    /// Returns the same snapshot in the other pool.
    pub fn there(&self, snapshot: &Snapshot) -> Option<&Snapshot> {
        let found = self.there.get(&snapshot.key())?;
        let is_alike = found.kind == snapshot.kind && found.root.len == snapshot.root.len;
        is_alike.then_some(found)
    }

    /// Returns another snapshot there with the same name, for kinds whose names are unique.
    pub fn namesake(&self, snapshot: &Snapshot) -> Option<&Snapshot> {
        let is_it = |other: &&Snapshot| {
            other.kind == SnapshotKind::Volume
                && other.name == snapshot.name
                && other.id != snapshot.id
        };
        (snapshot.kind == SnapshotKind::Volume)
            .then(|| self.there.values().find(is_it))
            .flatten()
    }

    /// Adds a copied snapshot.
    pub fn add(&mut self, there: Snapshot) {
        self.there.insert(there.key(), there);
    }

    /// Returns the pair most similar to a snapshot: the snapshot itself, its parent, or the newest
    /// one of its source.
    pub fn base(&self, of: &Snapshot) -> Option<Pair> {
        let itself = || self.here.iter().find(|s| s.id == of.id);
        itself()
            .and_then(|s| self.pair(s, of))
            .or_else(|| self.neighbour(of))
    }

    /// Returns the most similar pair other than the snapshot itself.
    pub fn neighbour(&self, of: &Snapshot) -> Option<Pair> {
        let others = || self.here.iter().filter(|s| s.id != of.id);
        let parent = others().find(|s| s.id == of.parent);
        let of_source = || {
            let mut near: Vec<&Snapshot> = others().filter(|s| is_of_one(s, of)).collect();
            near.sort_by_key(|s| (s.taken > of.taken, s.taken.0.abs_diff(of.taken.0)));
            near.into_iter().find_map(|s| self.pair(s, of))
        };
        parent.and_then(|s| self.pair(s, of)).or_else(of_source)
    }

    /// Returns the pair of a snapshot, if both pools have it and its kind matches `of`.
    fn pair(&self, here: &Snapshot, of: &Snapshot) -> Option<Pair> {
        let there = self.there(here)?;
        let is_like = (here.kind == SnapshotKind::Tree) == (of.kind == SnapshotKind::Tree)
            && here.root.layout == of.root.layout;
        is_like.then_some(Pair {
            here: here.root,
            there: there.root,
        })
    }
}

/// Returns true for states of one source.
fn is_of_one(a: &Snapshot, b: &Snapshot) -> bool {
    fn name(s: &Snapshot) -> &str {
        match s.kind {
            SnapshotKind::Volume => s.name.rsplit_once('@').map_or("", |(name, _)| name),
            _ => &s.name,
        }
    }
    a.kind == b.kind && a.host == b.host && a.paths == b.paths && name(a) == name(b)
}
