//! Node numbers of snapshot files and directories. `items`, `lines` and `snapshot_files` call this.
//!
//! ```text
//! node number:  | disk? | image? | number of the directory's place | number of the entry |
//! bits:             1       1                    38                         24
//! ```
//!
//! A node is an entry of a directory, so files need no table. Places (directories) do: a place
//! lives as long as the kernel knows a node in it.
//!
//! Invariant: a place's number is not reused. A place is dropped when the kernel has given back
//! every look-up in it. Inode numbers, which users see, are derived from paths and are the same in
//! every mount; hard links of one file have the same inode number.

use super::disks::Which;
use super::views::Shown;
use format::recipe::ObjectRoot;
use format::tree::{Entry, EntryKind};
use fuse::NodeId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Validity of items in snapshots, which never change.
pub(super) const FOR_EVER: Duration = Duration::from_secs(365 * 86_400);
/// Number of bits for an entry in a node number.
const ENTRY_BITS: u32 = 24;
/// Maximum number of entries of a directory that can be shown.
pub(super) const ENTRIES_MAX: usize = 1 << ENTRY_BITS;
/// Validity of items above snapshots, which may change at any time.
pub(super) const NOT_AT_ALL: Duration = Duration::ZERO;
/// Bit of nodes of volumes and images.
pub(super) const DISKS: u64 = 1 << 63;
/// Further bit of nodes of images.
pub(super) const IMAGES: u64 = 1 << 62;

/// Returns the node of the directory of volumes or images.
pub(super) const fn disks_node(which: Which) -> NodeId {
    match which {
        Which::Volumes => NodeId(DISKS | NodeId::ROOT.0),
        Which::Images => NodeId(DISKS | IMAGES | NodeId::ROOT.0),
    }
}

/// Hash of a path. Inode numbers are derived from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seed([u8; 16]);

impl Seed {
    /// Returns the inode number of the entry that `parts` name below this path, and that entry's
    /// seed.
    pub fn derive(&self, parts: &[&[u8]]) -> (u64, Self) {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0);
        for part in parts {
            hasher.update(part);
        }
        let mut bytes = hasher.finalize_xof();
        let (mut inode, mut seed) = ([0; 8], [0; 16]);
        bytes.fill(&mut inode);
        bytes.fill(&mut seed);
        // The highest bit marks disks. 0 and 1 are special to the kernel.
        let inode = (u64::from_le_bytes(inode) & !DISKS).max(2);
        (inode, Self(seed))
    }
}

/// Kind of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    /// A view: a directory above snapshots.
    View(usize),
    /// The top of an image or stream, which contains one file.
    Single(Arc<Shown>),
    /// A stored directory.
    Stored(ObjectRoot),
}

/// A directory.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Its node.
    pub node: NodeId,
    /// Its inode number.
    pub inode: u64,
    /// Inode number of its parent directory.
    pub parent_inode: u64,
    /// Seed of its entries' inode numbers.
    pub seed: Seed,
    /// Seed of the snapshot's top, for hard links.
    pub top_seed: Seed,
    /// The snapshot that contains it. `None` above snapshots.
    pub snapshot: Option<Arc<Shown>>,
    /// Its contents.
    pub contents: Contents,
}

impl Place {
    /// Returns the inode number of an entry and the seed below it.
    pub fn inode_of(&self, entry: &Entry) -> (u64, Seed) {
        match entry.kind {
            EntryKind::Directory { .. } => self.seed.derive(&[&entry.name]),
            _ if entry.links <= 1 => self.seed.derive(&[&entry.name]),
            // Hard links of one file: they have equal contents, unless the file changed during the
            // backup.
            EntryKind::File { content, .. } => {
                self.hard_link(entry, &content.fingerprint.0, content.len)
            }
            _ => self.hard_link(entry, &[], 0),
        }
    }

    fn hard_link(&self, entry: &Entry, content: &[u8], len: u64) -> (u64, Seed) {
        let numbers = [entry.device, entry.inode, len].map(u64::to_le_bytes);
        let [device, inode, len] = &numbers;
        self.top_seed
            .derive(&[b"/hard link/", device, inode, len, content])
    }
}

struct Known {
    place: Arc<Place>,
    lookups: u64,
}

#[derive(Default)]
struct Table {
    by_number: HashMap<u64, Known>,
    by_node: HashMap<NodeId, u64>,
    next: u64,
}

/// All places in which the kernel knows a node.
pub(super) struct Places(Mutex<Table>);

/// Splits a node number into the numbers of its place and its entry.
fn split(node: NodeId) -> (u64, usize) {
    let entry = node.0 & (ENTRIES_MAX as u64 - 1);
    (node.0 >> ENTRY_BITS, entry as usize)
}

impl Places {
    /// Returns the node of an entry of the place with this number.
    fn node(place: u64, entry: usize) -> NodeId {
        NodeId(place << ENTRY_BITS | entry as u64)
    }

    /// Creates the table with the top, which is never dropped.
    pub fn new(top: Place) -> Self {
        let mut table = Table {
            next: 1,
            ..Table::default()
        };
        // The kernel never gives this look-up back.
        table.count(&Arc::new(top), 1);
        Self(Mutex::new(table))
    }

    /// Returns the place that contains a node, and the number of its entry.
    pub fn of(&self, node: NodeId) -> Option<(Arc<Place>, usize)> {
        let (number, entry) = split(node);
        let table = self.0.lock();
        let known = table.by_number.get(&number)?;
        Some((Arc::clone(&known.place), entry))
    }

    /// Returns the place of a directory, if it is known.
    pub fn at(&self, directory: NodeId) -> Option<Arc<Place>> {
        let table = self.0.lock();
        let number = table.by_node.get(&directory)?;
        let known = table.by_number.get(number)?;
        Some(Arc::clone(&known.place))
    }

    /// Counts a look-up of an entry and returns its node.
    pub fn look_up(&self, place: &Arc<Place>, entry: usize) -> NodeId {
        let number = self.0.lock().count(place, 1);
        Self::node(number, entry)
    }

    /// Gives look-ups of a node back.
    pub fn forget(&self, node: NodeId, lookups: u64) {
        let (number, _) = split(node);
        let mut table = self.0.lock();
        let Some(known) = table.by_number.get_mut(&number) else {
            return;
        };
        known.lookups = known.lookups.saturating_sub(lookups);
        if known.lookups == 0
            && let Some(removed) = table.by_number.remove(&number)
        {
            table.by_node.remove(&removed.place.node);
        }
    }

    /// Returns the number of places.
    pub fn len(&self) -> usize {
        self.0.lock().by_number.len()
    }
}

impl Table {
    fn count(&mut self, place: &Arc<Place>, lookups: u64) -> u64 {
        let next = self.next;
        let number = *self.by_node.entry(place.node).or_insert(next);
        if number == next {
            self.next += 1;
        }
        let known = self.by_number.entry(number).or_insert_with(|| Known {
            place: Arc::clone(place),
            lookups: 0,
        });
        known.lookups = known.lookups.saturating_add(lookups);
        number
    }
}
