//! Resolves nodes and names of snapshots to items. `snapshot_files` and `lines` call this.
//!
//! Invariant: this module decides what exists. It knows nothing of the kernel's answers.

use super::places::{Contents, ENTRIES_MAX, Place, Places, Seed};
use super::snapshot_list::SnapshotList;
use super::views::{Shown, TOP, Target, View, Views};
use crate::directories::Directories;
use format::snapshot::SnapshotKind;
use format::tree::{Directory, Entry, EntryKind};
use fuse::{Errno, NodeId};
use jiff::tz::TimeZone;
use parking_lot::RwLock;
use std::sync::Arc;
use store::StoreError;

/// Something that has a name.
#[derive(Clone, Debug)]
pub(super) enum Item {
    /// An entry of a directory above the snapshots or disks.
    Above(Target),
    /// The file of an image or stream.
    Single(Arc<Shown>),
    /// A stored entry.
    Entry(Box<Entry>),
}

/// Reason why an item was not found.
#[derive(Debug)]
pub(super) enum Missing {
    /// The error number for the calling process.
    Errno(Errno),
    /// A directory is damaged or cannot be read.
    Store(StoreError),
}

impl From<StoreError> for Missing {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Errno> for Missing {
    fn from(error: Errno) -> Self {
        Self::Errno(error)
    }
}

/// All items except the files of disks.
pub(super) struct Items {
    snapshots: Arc<SnapshotList>,
    views: RwLock<Views>,
    pub directories: Arc<Directories>,
    pub places: Places,
}

/// The entries of a directory, for access by number and name.
pub(super) enum Entries {
    View(Arc<View>),
    Single(Arc<Shown>),
    Stored(Arc<Directory>),
}

impl Entries {
    /// Returns the first entry at `number` or after it: its number, name and item.
    pub fn from(&self, number: usize) -> Option<(usize, Vec<u8>, Item)> {
        let number = match self {
            Self::View(view) => view.from(number)?.0,
            Self::Single(_) | Self::Stored(_) => number,
        };
        let (name, item) = self.get(number)?;
        Some((number, name, item))
    }

    /// Returns the name and item of entry `number`, counted from 0.
    pub fn get(&self, number: usize) -> Option<(Vec<u8>, Item)> {
        match self {
            Self::View(view) => {
                let (name, target) = view.get(number)?;
                Some((name.clone(), Item::Above(target.clone())))
            }
            Self::Single(shown) => {
                (number == 0).then(|| (shown.file_name.clone(), Item::Single(Arc::clone(shown))))
            }
            Self::Stored(directory) => {
                let entry = directory.entry(number)?;
                Some((entry.name.clone(), Item::Entry(Box::new(entry))))
            }
        }
    }

    fn find(&self, name: &[u8]) -> Option<(usize, Item)> {
        match self {
            Self::View(view) => {
                let (number, target) = view.find(name)?;
                Some((number, Item::Above(target.clone())))
            }
            Self::Single(shown) => {
                (shown.file_name == name).then(|| (0, Item::Single(Arc::clone(shown))))
            }
            Self::Stored(directory) => {
                let (number, entry) = directory.find(name)?;
                Some((number, Item::Entry(Box::new(entry))))
            }
        }
    }
}

impl Items {
    pub fn new(
        snapshots: Arc<SnapshotList>,
        zone: TimeZone,
        directories: Arc<Directories>,
    ) -> Self {
        let top = Place {
            node: NodeId::ROOT,
            inode: NodeId::ROOT.0,
            parent_inode: NodeId::ROOT.0,
            seed: Seed::default(),
            top_seed: Seed::default(),
            snapshot: None,
            contents: Contents::View(TOP),
        };
        Self {
            snapshots,
            views: RwLock::new(Views::new(zone)),
            directories,
            places: Places::new(top),
        }
    }

    /// Returns the present state of a view.
    fn view(&self, number: usize) -> Option<Arc<View>> {
        let snapshots = self.snapshots.now();
        {
            let views = self.views.read();
            if views.are_of(&snapshots) {
                return views.get(number).cloned();
            }
        }
        let mut views = self.views.write();
        views.update(&snapshots);
        views.get(number).cloned()
    }

    /// Returns the entries of a directory, reading it if it is not cached.
    pub fn entries(&self, place: &Place) -> Result<Entries, Missing> {
        Ok(match &place.contents {
            Contents::View(number) => Entries::View(self.view(*number).ok_or(Errno::NOENT)?),
            Contents::Single(shown) => Entries::Single(Arc::clone(shown)),
            Contents::Stored(root) => {
                let directory = self.directories.get(root)?;
                if directory.len() > ENTRIES_MAX {
                    return Err(Errno::OVERFLOW.into());
                }
                Entries::Stored(directory)
            }
        })
    }

    /// Returns true if the entries of a directory are in memory.
    pub fn are_cached(&self, place: &Place) -> bool {
        match &place.contents {
            Contents::Stored(root) => self.directories.cached(root).is_some(),
            Contents::View(_) => self.snapshots.is_current(),
            Contents::Single(_) => true,
        }
    }

    /// Returns the directory, name and item of a node. The top has none.
    pub fn item(&self, node: NodeId) -> Result<(Arc<Place>, Vec<u8>, Item), Missing> {
        let (place, number) = self.places.of(node).ok_or(Errno::STALE)?;
        let (name, item) = self.entries(&place)?.get(number).ok_or(Errno::STALE)?;
        Ok((place, name, item))
    }

    /// Returns the number and item of `name` in a directory.
    pub fn find(&self, place: &Place, name: &[u8]) -> Result<(usize, Item), Missing> {
        let found = self.entries(place)?.find(name);
        found.ok_or(Missing::Errno(Errno::NOENT))
    }

    /// Returns the place of a directory's node.
    pub fn place(&self, node: NodeId) -> Result<Arc<Place>, Missing> {
        if let Some(place) = self.places.at(node) {
            return Ok(place);
        }
        let (parent, name, item) = self.item(node)?;
        let named = || parent.seed.derive(&[&name]);
        let mut snapshot = parent.snapshot.clone();
        let ((inode, seed), top_seed, contents) = match item {
            Item::Above(Target::Snapshot(shown)) => {
                snapshot = Some(Arc::clone(&shown));
                let contents = match shown.kind {
                    SnapshotKind::Tree => Contents::Stored(shown.root),
                    SnapshotKind::Image | SnapshotKind::Stream | SnapshotKind::Volume => {
                        Contents::Single(shown)
                    }
                };
                (named(), None, contents)
            }
            Item::Above(Target::View(number)) => (named(), None, Contents::View(number)),
            Item::Entry(entry) => match entry.kind {
                EntryKind::Directory { content } => {
                    let (inode, seed) = parent.inode_of(&entry);
                    (
                        (inode, seed),
                        Some(parent.top_seed),
                        Contents::Stored(content),
                    )
                }
                _ => return Err(Errno::NOTDIR.into()),
            },
            // Nodes of disks belong to other file systems.
            Item::Above(_) | Item::Single(_) => return Err(Errno::NOTDIR.into()),
        };
        Ok(Arc::new(Place {
            node,
            inode,
            parent_inode: parent.inode,
            seed,
            top_seed: top_seed.unwrap_or(seed),
            snapshot,
            contents,
        }))
    }

    /// Returns the path of a node, for messages.
    pub fn path(&self, node: NodeId) -> Vec<u8> {
        self.path_below(node, |_| true)
    }

    /// Returns the path of a stored entry from the root of its snapshot.
    pub fn path_in_snapshot(&self, node: NodeId) -> Vec<u8> {
        self.path_below(node, |item| !matches!(item, Item::Above(_)))
    }

    /// Returns the names from the first item that is not `wanted` down to the node.
    fn path_below(&self, node: NodeId, wanted: impl Fn(&Item) -> bool) -> Vec<u8> {
        let mut names = Vec::new();
        let mut at = node;
        while at != NodeId::ROOT {
            // Directories above the node are in memory, or were a moment ago.
            let Ok((place, name, item)) = self.item(at) else {
                break;
            };
            if !wanted(&item) {
                break;
            }
            names.push(name);
            at = place.node;
        }
        names.iter().rev().fold(Vec::new(), |mut path, name| {
            path.push(b'/');
            path.extend_from_slice(name);
            path
        })
    }
}
