//! Chooses the owners that get a bit: volumes and the newest snapshots. `owners` calls this.
//!
//! Invariant: no I/O. At most [`RECENT_MAX`] snapshots are remembered.

use super::OWNERS_MAX;
use format::recipe::ObjectRoot;
use format::snapshot::{Snapshot, SnapshotKind};
use format::volume::VolumeRecord;
use std::collections::{HashMap, VecDeque};
use units::UnixNanos;

/// Number of the newest snapshots among which owners are chosen.
const RECENT_MAX: usize = 4096;

/// An object, or a tree of objects, that is restored as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub root: ObjectRoot,
    /// The root is a directory.
    pub is_tree: bool,
    taken: UnixNanos,
}

/// Snapshots in the order of the catalog, which is by time, and volumes.
#[derive(Default)]
pub(super) struct Recent {
    snapshots: VecDeque<(Source, Owner)>,
    volumes: Vec<Owner>,
}

/// Identity of a snapshot's source.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Source {
    kind: SnapshotKind,
    host: String,
    name: String,
    paths: Vec<Vec<u8>>,
}

impl Source {
    fn of(snapshot: &Snapshot) -> Self {
        let name = match snapshot.kind {
            SnapshotKind::Volume => snapshot.name.split('@').next().unwrap_or_default(),
            _ => &snapshot.name,
        };
        Self {
            kind: snapshot.kind,
            host: snapshot.host.clone(),
            name: name.to_owned(),
            paths: snapshot.paths.clone(),
        }
    }
}

impl Recent {
    /// Adds the next snapshot of the catalog. The oldest ones are dropped, and one without changes.
    pub fn add_snapshot(&mut self, snapshot: &Snapshot) {
        let before = self.snapshots.back();
        if before.is_some_and(|(_, before)| before.root == snapshot.root) {
            return;
        }
        if self.snapshots.len() == RECENT_MAX {
            self.snapshots.pop_front();
        }
        let owner = Owner {
            root: snapshot.root,
            is_tree: snapshot.kind == SnapshotKind::Tree,
            taken: snapshot.taken,
        };
        self.snapshots.push_back((Source::of(snapshot), owner));
    }

    /// Adds a volume.
    pub fn add_volume(&mut self, volume: &VolumeRecord) {
        if self.volumes.len() < OWNERS_MAX {
            self.volumes.push(Owner {
                root: volume.root,
                is_tree: false,
                taken: UnixNanos(i64::MAX),
            });
        }
    }

    /// Returns the owners, the newest first: volumes, the newest snapshot of each source, the
    /// second newest of each, and so on. Owners with the same contents count once.
    pub fn chosen(self) -> Vec<Owner> {
        let mut before: HashMap<Source, usize> = HashMap::new();
        let mut ranked = Vec::with_capacity(self.snapshots.len());
        for (source, owner) in self.snapshots.into_iter().rev() {
            let rank = before.entry(source).or_default();
            ranked.push((*rank, owner));
            *rank += 1;
        }
        // Stable: within a rank the newest stays first.
        ranked.sort_by_key(|(rank, _)| *rank);
        let snapshots = ranked.into_iter().map(|(_, owner)| owner);
        let mut chosen: Vec<Owner> = Vec::with_capacity(OWNERS_MAX);
        for owner in self.volumes.into_iter().chain(snapshots) {
            if chosen.len() == OWNERS_MAX {
                break;
            }
            if !chosen.iter().any(|other| other.root == owner.root) {
                chosen.push(owner);
            }
        }
        chosen.sort_by_key(|owner| std::cmp::Reverse(owner.taken));
        chosen
    }
}
