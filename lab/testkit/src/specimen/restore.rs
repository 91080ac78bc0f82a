//! Restores snapshots and compares them with what was stored.
//!
//! Invariant: an object is returned unchanged or as an error. Anything else fails the test.

use format::recipe::ObjectRoot;
use format::snapshot::{Snapshot, SnapshotKind};
use format::tree::{Entry, EntryKind};
use std::collections::BTreeMap;
use store::Pool;
use units::SnapshotId;

/// Expected contents of an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// A file, an image, a stream.
    Bytes(Vec<u8>),
    /// A directory.
    Directory(Vec<Entry>),
}

/// Contents by path. The path of the top is empty.
pub type Objects = BTreeMap<Vec<u8>, Content>;

/// A snapshot and its expected contents.
#[derive(Clone)]
pub struct Truth {
    /// The committed record.
    pub snapshot: Snapshot,
    /// Its contents.
    pub objects: Objects,
}

/// A path of a snapshot.
pub type Name = (SnapshotId, Vec<u8>);

/// Names that could not be read, and the damage that reading them reported.
pub type Lost = BTreeMap<Name, String>;

impl Truth {
    /// Creates the truth of an image or a stream.
    pub fn of_bytes(snapshot: Snapshot, bytes: Vec<u8>) -> Self {
        Self {
            snapshot,
            objects: [(Vec::new(), Content::Bytes(bytes))].into(),
        }
    }

    /// Restores every object through the directories. Returns the names that give errors. Fails on
    /// bytes that differ from what was stored.
    pub fn restore(&self, pool: &Pool) -> Result<Lost, String> {
        let mut lost = Lost::new();
        let is_tree = self.snapshot.kind == SnapshotKind::Tree;
        let mut rest = vec![(self.snapshot.root, is_tree, Vec::new())];
        while let Some((root, is_tree, path)) = rest.pop() {
            let found = match read(pool, &root, is_tree) {
                Ok(found) => found,
                Err(e) if e.is_corruption() => {
                    lost.insert((self.snapshot.id, path), e.to_string());
                    continue;
                }
                Err(e) => return Err(format!("reading fails with {:?}: {e}", e.kind)),
            };
            if self.objects.get(&path) != Some(&found) {
                let path = String::from_utf8_lossy(&path);
                return Err(format!("{} {path:?} is not what was stored", self.name()));
            }
            let Content::Directory(entries) = found else {
                continue;
            };
            for entry in entries {
                let path = [&path[..], b"/", &entry.name].concat();
                match entry.kind {
                    EntryKind::File { content, .. } => rest.push((content, false, path)),
                    EntryKind::Directory { content } => rest.push((content, true, path)),
                    _ => {}
                }
            }
        }
        Ok(lost)
    }

    /// Returns a name for messages.
    pub fn name(&self) -> String {
        format!("{:?} {:?}", self.snapshot.kind, self.snapshot.name)
    }
}

/// Reads a whole object.
fn read(pool: &Pool, root: &ObjectRoot, is_tree: bool) -> store::Result<Content> {
    if is_tree {
        pool.reader().directory(root).map(Content::Directory)
    } else {
        let whole = pool.reader().read_whole(root, 1 << 30);
        whole.map(Content::Bytes)
    }
}
