//! Numbers of nodes, and what they stand for.
//!
//! A node is an entry of a directory: the number of the directory's *place* and the number of the
//! entry in it. So files need no table; places do, and live as long as the kernel holds something
//! in them.
//!
//! Invariant: a place's number is never used twice; it is forgotten when the kernel has given back
//! every look-up in it. Numbers that users see (inodes) come from paths and are the same in every
//! mount; names of one file share theirs.

use super::disks::Which;
use super::views::Shown;
use format::recipe::ObjectRoot;
use format::tree::{Entry, EntryKind};
use fuse::NodeId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// What is in snapshots never changes.
pub(super) const FOR_EVER: Duration = Duration::from_secs(365 * 86_400);
/// Bits of a node's number that say which entry.
const ENTRY_BITS: u32 = 24;
/// Most entries of a directory that can be shown.
pub(super) const ENTRIES_MAX: usize = 1 << ENTRY_BITS;
/// What is above them does.
pub(super) const NOT_AT_ALL: Duration = Duration::ZERO;
/// Set in the numbers of disks' nodes.
pub(super) const DISKS: u64 = 1 << 63;
/// Set beside it in those of images.
pub(super) const IMAGES: u64 = 1 << 62;

/// The directory of disks.
pub(super) const fn disks_node(which: Which) -> NodeId {
    match which {
        Which::Volumes => NodeId(DISKS | NodeId::ROOT.0),
        Which::Images => NodeId(DISKS | IMAGES | NodeId::ROOT.0),
    }
}

/// Where inode numbers come from: a hash of the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seed([u8; 16]);

impl Seed {
    /// Inode number of what `parts` name below this, and the seed for what is below that.
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
        // The highest bit is that of disks; 0 and 1 mean something to the kernel.
        let inode = (u64::from_le_bytes(inode) & !DISKS).max(2);
        (inode, Self(seed))
    }
}

/// What a directory lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    /// One of the directories above snapshots.
    View(usize),
    /// The file of an image or stream.
    Single(Arc<Shown>),
    /// A stored directory.
    Stored(ObjectRoot),
}

/// A directory.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Its own node.
    pub node: NodeId,
    /// Inode number that users see, and that of the directory above.
    pub inode: u64,
    /// See `inode`.
    pub parent_inode: u64,
    /// Of its entries' inode numbers.
    pub seed: Seed,
    /// That of the snapshot's top: for hard links.
    pub top_seed: Seed,
    /// The snapshot that it is in; `None` above snapshots.
    pub snapshot: Option<Arc<Shown>>,
    /// What is in it.
    pub contents: Contents,
}

impl Place {
    /// Inode number of an entry, and the seed below it.
    pub fn inode_of(&self, entry: &Entry) -> (u64, Seed) {
        match entry.kind {
            EntryKind::Directory { .. } => self.seed.derive(&[&entry.name]),
            _ if entry.links <= 1 => self.seed.derive(&[&entry.name]),
            // Names of one file, unless it changed between them.
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

/// All places that the kernel holds something in.
pub(super) struct Places(Mutex<Table>);

/// Splits a node into its place's number and its entry's.
fn split(node: NodeId) -> (u64, usize) {
    let entry = node.0 & (ENTRIES_MAX as u64 - 1);
    (node.0 >> ENTRY_BITS, entry as usize)
}

impl Places {
    /// The node of an entry of the place with this number.
    fn node(place: u64, entry: usize) -> NodeId {
        NodeId(place << ENTRY_BITS | entry as u64)
    }

    /// With the top, which stays for ever.
    pub fn new(top: Place) -> Self {
        let mut table = Table {
            next: 1,
            ..Table::default()
        };
        // One look-up that nobody gives back.
        table.count(&Arc::new(top), 1);
        Self(Mutex::new(table))
    }

    /// The place that a node is in, and which entry it is.
    pub fn of(&self, node: NodeId) -> Option<(Arc<Place>, usize)> {
        let (number, entry) = split(node);
        let table = self.0.lock();
        let known = table.by_number.get(&number)?;
        Some((Arc::clone(&known.place), entry))
    }

    /// The place that a directory is, if it is known.
    pub fn at(&self, directory: NodeId) -> Option<Arc<Place>> {
        let table = self.0.lock();
        let number = table.by_node.get(&directory)?;
        let known = table.by_number.get(number)?;
        Some(Arc::clone(&known.place))
    }

    /// The node of an entry, looked up once more.
    pub fn look_up(&self, place: &Arc<Place>, entry: usize) -> NodeId {
        let number = self.0.lock().count(place, 1);
        Self::node(number, entry)
    }

    /// The kernel gives look-ups of a node back.
    pub fn forget(&self, node: NodeId, lookups: u64) {
        let (number, _) = split(node);
        let mut table = self.0.lock();
        let Some(known) = table.by_number.get_mut(&number) else {
            return;
        };
        known.lookups = known.lookups.saturating_sub(lookups);
        if known.lookups == 0
            && let Some(gone) = table.by_number.remove(&number)
        {
            table.by_node.remove(&gone.place.node);
        }
    }

    /// How many there are.
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
