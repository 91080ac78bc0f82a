//! Defragmentation of volumes and snapshots (FragPicker, SOSP'21; decision 25): where the bytes of an object
//! lie, whom moving some of them would hurt, and copying them forward.
//!
//! Chunks are found by their content, so no recipe changes: a copy in a container of writer 5 is found
//! before the others (`chunk_store::chunk_map::Moved`). The old copies are not needed any more, and are collected as everything
//! else that nobody needs.
//!
//! Invariant: nothing is removed here, and nothing refers to what was not stored before: after a crash
//! there are more copies than needed, or not. Called by maintenance.

mod mover;
mod owners;
mod places;

pub use mover::{Copying, MoveCounts, Mover};
pub use owners::{Move, Moves, read_at_once};
pub use places::{Cost, Places};

use crate::pool::{Pool, trace_key};
use chunk_store::Result;
use format::recipe::ObjectRoot;
use format::snapshot::SnapshotKind;

/// Something that is read in place: a volume, or a snapshot of one, of an image or of a stream.
#[derive(Clone, Debug)]
pub struct Fragmentable {
    /// As people call it.
    pub name: String,
    /// Hexadecimal digits of its id.
    pub id: String,
    /// Its number in traces: the first eight bytes of its id.
    pub key: u64,
    /// Its number in the page cache, where it has one.
    pub cached_as: Option<u64>,
    /// It can be written to.
    pub is_volume: bool,
    /// What it consists of now; of a volume, without what is not folded in yet.
    pub root: ObjectRoot,
}

impl Pool {
    /// What can be defragmented, by the newest commit: volumes by name, then snapshots, oldest first. What
    /// of the catalog cannot be read is not among it.
    pub fn fragmentables(&self) -> Result<Vec<Fragmentable>> {
        let volumes = self.volumes()?.into_iter().map(|volume| Fragmentable {
            id: volume.id.to_string(),
            key: trace_key(&volume.id.0),
            cached_as: None,
            is_volume: true,
            root: volume.root,
            name: volume.name,
        });
        let mut all: Vec<_> = volumes.collect();
        let (snapshots, _) = self.snapshots_readable()?;
        let is_tree = |kind| kind == SnapshotKind::Tree;
        let snapshots = snapshots.into_iter().filter(|s| !is_tree(s.kind));
        all.extend(snapshots.map(|snapshot| Fragmentable {
            id: snapshot.id.to_string(),
            key: trace_key(&snapshot.id.0),
            cached_as: None,
            is_volume: false,
            root: snapshot.root,
            name: snapshot.name,
        }));
        Ok(all)
    }
}
