//! Numbers volumes, and the directories in their names, as nodes. Volume files call this.
//!
//! Invariant: a number means one volume, or one directory, for ever. Every one that was ever looked
//! up takes some bytes, which are never freed: there are thousands, not millions.

use crate::wire::NodeId;
use parking_lot::RwLock;
use rustix::io::Errno;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use units::VolumeId;

/// First number after that of the top directory.
const FIRST: u64 = NodeId::ROOT.0 + 1;

/// A node that was looked up.
pub(super) enum Known {
    /// A volume.
    Volume(KnownVolume),
    /// A directory.
    Directory(KnownDirectory),
}

/// A volume that was looked up.
pub(super) struct KnownVolume {
    /// Its identifier.
    pub id: VolumeId,
    /// Time of the last write through this mount, in ns since 1970; the minimum if never.
    pub written: AtomicI64,
}

/// A directory that was looked up.
pub(super) struct KnownDirectory {
    /// Its path, without `/` at the ends.
    pub path: String,
    /// Its parent directory.
    pub parent: NodeId,
}

#[derive(Default)]
struct Tables {
    by_id: HashMap<VolumeId, NodeId>,
    by_path: HashMap<String, NodeId>,
    by_number: Vec<Arc<Known>>,
}

/// All nodes.
#[derive(Default)]
pub(super) struct Nodes(RwLock<Tables>);

impl Nodes {
    /// Returns the meaning of a number. Not for the top.
    pub fn known(&self, node: NodeId) -> Result<Arc<Known>, Errno> {
        let tables = self.0.read();
        let place = node.0.checked_sub(FIRST);
        place
            .and_then(|place| tables.by_number.get(place as usize).cloned())
            .ok_or(Errno::NOENT)
    }

    /// Returns the number of a volume, a new one if it has none yet.
    pub fn of_volume(&self, id: VolumeId) -> NodeId {
        let known = || {
            Known::Volume(KnownVolume {
                id,
                written: AtomicI64::new(i64::MIN),
            })
        };
        self.of(|tables| &mut tables.by_id, &id, known)
    }

    /// Returns the number of a directory in `parent`, a new one if it has none yet.
    pub fn of_directory(&self, path: String, parent: NodeId) -> NodeId {
        let known = || {
            Known::Directory(KnownDirectory {
                path: path.clone(),
                parent,
            })
        };
        self.of(|tables| &mut tables.by_path, &path, known)
    }

    fn of<K: Clone + Eq + Hash>(
        &self,
        table: impl Fn(&mut Tables) -> &mut HashMap<K, NodeId>,
        key: &K,
        known: impl FnOnce() -> Known,
    ) -> NodeId {
        let mut tables = self.0.write();
        let next = NodeId(FIRST + tables.by_number.len() as u64);
        let node = *table(&mut tables).entry(key.clone()).or_insert(next);
        if node == next {
            tables.by_number.push(Arc::new(known()));
        }
        node
    }
}
