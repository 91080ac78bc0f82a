//! What nodes and names lead to.
//!
//! Invariant: nothing here answers the kernel; an item says what there is, `pool_files` what
//! that looks like.

use super::directories::Directories;
use super::places::{Contents, ENTRIES_MAX, Place, Places, Seed};
use super::views::{Target, Views};
use format::snapshot::SnapshotKind;
use format::tree::{Directory, Entry, EntryKind};
use fuse::{Errno, NodeId};
use std::sync::Arc;
use store::StoreError;

/// Something with a name.
#[derive(Clone, Debug)]
pub(super) enum Item {
    /// One of the directories above snapshots, or above volumes.
    Above(Target),
    /// The file of an image or stream, by the number of its snapshot.
    Single(usize),
    /// A stored entry.
    Entry(Box<Entry>),
}

/// Why an item was not found.
#[derive(Debug)]
pub(super) enum Missing {
    /// What the process is told.
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

/// Everything that is shown, but for volumes' files.
pub(super) struct Items {
    pub views: Views,
    pub directories: Directories,
    pub places: Places,
}

/// The entries of a place, ready to be counted through.
pub(super) enum Entries<'a> {
    View(&'a [(Vec<u8>, Target)]),
    Single(usize, &'a [u8]),
    Stored(Arc<Directory>),
}

impl Entries<'_> {
    /// Entry `number`, counted from 0, and its name.
    pub fn get(&self, number: usize) -> Option<(Vec<u8>, Item)> {
        match self {
            Self::View(entries) => {
                let (name, target) = entries.get(number)?;
                Some((name.clone(), Item::Above(target.clone())))
            }
            Self::Single(snapshot, name) => {
                (number == 0).then(|| (name.to_vec(), Item::Single(*snapshot)))
            }
            Self::Stored(directory) => {
                let entry = directory.entry(number)?;
                Some((entry.name.clone(), Item::Entry(Box::new(entry))))
            }
        }
    }

    fn find(&self, name: &[u8]) -> Option<(usize, Item)> {
        match self {
            Self::View(entries) => {
                let found = entries.binary_search_by(|(n, _)| n.as_slice().cmp(name));
                let number = found.ok()?;
                let (_, target) = entries.get(number)?;
                Some((number, Item::Above(target.clone())))
            }
            Self::Single(snapshot, n) => (*n == name).then_some((0, Item::Single(*snapshot))),
            Self::Stored(directory) => {
                let (number, entry) = directory.find(name)?;
                Some((number, Item::Entry(Box::new(entry))))
            }
        }
    }
}

impl Items {
    pub fn new(views: Views, directories: Directories) -> Self {
        let places = Places::new(view_places(&views));
        Self {
            views,
            directories,
            places,
        }
    }

    /// The entries of a directory; reads it if need be.
    pub fn entries(&self, place: &Place) -> Result<Entries<'_>, Missing> {
        Ok(match place.contents {
            Contents::View(number) => {
                let view = self.views.views.get(number).ok_or(Errno::NOENT)?;
                Entries::View(&view.entries)
            }
            Contents::Single(number) => {
                let shown = self.views.snapshots.get(number).ok_or(Errno::NOENT)?;
                Entries::Single(number, &shown.file_name)
            }
            Contents::Stored(root) => {
                let directory = self.directories.get(&root)?;
                if directory.len() > ENTRIES_MAX {
                    return Err(Errno::OVERFLOW.into());
                }
                Entries::Stored(directory)
            }
        })
    }

    /// True if the entries of a directory are in memory.
    pub fn are_cached(&self, place: &Place) -> bool {
        match &place.contents {
            Contents::Stored(root) => self.directories.cached(root).is_some(),
            Contents::View(_) | Contents::Single(_) => true,
        }
    }

    /// What a node stands for, and the directory that it is in. Not for the top.
    pub fn item(&self, node: NodeId) -> Result<(Arc<Place>, Vec<u8>, Item), Missing> {
        let (place, number) = self.places.of(node).ok_or(Errno::STALE)?;
        let (name, item) = self.entries(&place)?.get(number).ok_or(Errno::STALE)?;
        Ok((place, name, item))
    }

    /// What `name` in a directory leads to, and its number there.
    pub fn find(&self, place: &Place, name: &[u8]) -> Result<(usize, Item), Missing> {
        let found = self.entries(place)?.find(name);
        found.ok_or(Missing::Errno(Errno::NOENT))
    }

    /// A directory as a place.
    pub fn place(&self, node: NodeId) -> Result<Arc<Place>, Missing> {
        if let Some(place) = self.places.at(node) {
            return Ok(place);
        }
        let (parent, name, item) = self.item(node)?;
        let named = || parent.seed.derive(&[&name]);
        let ((inode, seed), top_seed, contents) = match item {
            Item::Above(Target::Snapshot(number)) => {
                let shown = self.views.snapshots.get(number).ok_or(Errno::NOENT)?;
                let contents = match shown.kind {
                    SnapshotKind::Tree => Contents::Stored(shown.root),
                    SnapshotKind::Image | SnapshotKind::Stream | SnapshotKind::Volume => {
                        Contents::Single(number)
                    }
                };
                (named(), None, contents)
            }
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
            // Views are places for ever; volumes have their own.
            Item::Above(_) | Item::Single(_) => return Err(Errno::NOTDIR.into()),
        };
        Ok(Arc::new(Place {
            node,
            inode,
            parent_inode: parent.inode,
            seed,
            top_seed: top_seed.unwrap_or(seed),
            contents,
        }))
    }

    /// The path of a node, for messages.
    pub fn path(&self, node: NodeId) -> Vec<u8> {
        let mut names = Vec::new();
        let mut at = node;
        while at != NodeId::ROOT {
            // Directories above are in memory, or were a moment ago.
            let Ok((place, name, _)) = self.item(at) else {
                break;
            };
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

/// The views as places, in the order of their numbers.
fn view_places(views: &Views) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    for (number, view) in views.views.iter().enumerate() {
        let above = places.get(view.parent);
        let of_parent = views.views.get(view.parent);
        let in_parent = of_parent.into_iter().flat_map(|parent| &parent.entries);
        let own = in_parent
            .enumerate()
            .find(|(_, (_, target))| *target == Target::View(number));
        let (inode, seed) = match (above, &own) {
            (Some(above), Some((_, (name, _)))) => above.seed.derive(&[name]),
            _ => (NodeId::ROOT.0, Seed::default()),
        };
        let node = match &own {
            // A view's place has its number and one more.
            Some((entry, _)) => Places::node(view.parent as u64 + 1, *entry),
            None => NodeId::ROOT,
        };
        let parent_inode = above.map_or(inode, |above| above.inode);
        places.push(Place {
            node,
            inode,
            parent_inode,
            seed,
            top_seed: seed,
            contents: Contents::View(number),
        });
    }
    places
}
