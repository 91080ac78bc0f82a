//! Primitives of defragmentation (FragPicker, SOSP'21; decision 25): where the bytes of an object
//! are, how much a move would fragment other objects, and copying chunks forward. `maintenance`
//! calls this.
//!
//! Chunks are found by content, so no recipe changes: readers prefer a copy in a container of
//! writer 5 (`chunk_store::chunk_map::Moved`). The old copies are then garbage, and garbage
//! collection removes them.
//!
//! Invariant: nothing is removed here, and no reference changes. After a crash there may be more
//! copies than needed.

mod mover;
mod owners;
mod places;

pub use format::defrag::MoveCounts;
pub use mover::{Copying, Mover};
pub use owners::{Move, Moves, read_at_once};
pub use places::{Cost, Places};

use crate::pool::{Pool, trace_key};
use chunk_store::Result;
use format::recipe::ObjectRoot;
use format::snapshot::SnapshotKind;

/// An object that is read in place: a volume, or a snapshot of a volume, an image or a stream.
#[derive(Clone, Debug)]
pub struct Fragmentable {
    /// Name for users.
    pub name: String,
    /// Hexadecimal digits of its id.
    pub id: String,
    /// Its number in traces: the first eight bytes of its id.
    pub key: u64,
    /// Its number in the page cache, if it has one.
    pub cached_as: Option<u64>,
    /// True if it is writable.
    pub is_volume: bool,
    /// Its contents. For a volume, without writes that are not yet applied to its recipe.
    pub root: ObjectRoot,
}

impl Pool {
    /// Returns the objects that can be defragmented, by the newest commit: volumes by name, then
    /// snapshots, oldest first. Skips unreadable parts of the catalog's snapshots.
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
