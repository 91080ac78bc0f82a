//! Snapshots, and the directories above them, as a [`FileSystem`]. [`super::PoolFiles`] calls this.
//!
//! Invariant: see [`crate::mount`]. The directories of disks have a name here and no contents:
//! [`super::pool_files`] routes their nodes elsewhere.

use super::appearance::{of_item, of_top};
use super::items::{Item, Items, Missing};
use super::lines;
use super::open_files::{OpenFile, OpenFiles};
use super::places::{Contents, FOR_EVER, NOT_AT_ALL, Place};
use super::snapshot_list::SnapshotList;
use super::views::Target;
use crate::directories::Directories;
use archive::filesystem::xattrs::Xattrs;
use classes::{Classifiers, FileRead};
use format::recipe::ObjectRoot;
use format::tree::EntryKind;
use fuse::{
    Attributes, Errno, FileSystem, Handle, Listing, Node, NodeId, Opened, SeekTarget, Statistics,
    Time, errno, read_within, seek_extent,
};
use jiff::tz::TimeZone;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use store::{HolderKind, OpenSnapshot, Pool, Reader, StoreError};
use volume::{RequestContext, Volume};

/// Maximum number of damaged nodes that are remembered as reported.
const REPORTED_MAX: usize = 10_000;
/// Reports that a file or directory cannot be read: its path in the mount, and the cause.
pub type Tell = dyn Fn(&[u8], &StoreError) + Send + Sync;

/// Snapshots as a file system.
pub struct SnapshotFiles {
    reader: Arc<Reader>,
    items: Items,
    open: OpenFiles,
    pool: Arc<Pool>,
    /// Path of the mount, which lists of holds show as the holder.
    mount: String,
    /// Classify reads. `None` without a server.
    classifiers: Option<Arc<Classifiers>>,
    tell: Box<Tell>,
    /// Nodes whose damage was reported.
    reported: Mutex<HashSet<NodeId>>,
}

impl SnapshotFiles {
    /// Shows snapshots with their local times in `zone` as names. `tell` is called about damage,
    /// once for each file and directory.
    pub fn new(
        snapshots: Arc<SnapshotList>,
        zone: TimeZone,
        directories: Arc<Directories>,
        mount: String,
        classifiers: Option<Arc<Classifiers>>,
        tell: Box<Tell>,
    ) -> Self {
        let pool = Arc::clone(snapshots.pool());
        Self {
            reader: Arc::clone(pool.reader()),
            items: Items::new(snapshots, zone, directories),
            open: OpenFiles::default(),
            pool,
            mount,
            classifiers,
            tell,
            reported: Mutex::default(),
        }
    }

    /// Returns the number of directories that the kernel knows nodes of.
    pub fn places(&self) -> usize {
        self.items.places.len()
    }

    /// Returns the error number for the calling process. Reports damage to the user too.
    fn refuse(&self, node: NodeId, missing: Missing) -> Errno {
        match missing {
            Missing::Errno(errno) => errno,
            Missing::Store(error) => {
                let mut reported = self.reported.lock();
                let new = reported.len() < REPORTED_MAX && reported.insert(node);
                drop(reported);
                if new {
                    (self.tell)(&self.items.path(node), &error);
                }
                Errno::IO
            }
        }
    }

    fn place(&self, node: NodeId) -> Result<Arc<Place>, Errno> {
        let place = self.items.place(node);
        place.map_err(|missing| self.refuse(node, missing))
    }

    fn item(&self, node: NodeId) -> Result<(Arc<Place>, Vec<u8>, Item), Errno> {
        let item = self.items.item(node);
        item.map_err(|missing| self.refuse(node, missing))
    }

    /// Holds the snapshot of a directory against gc, if that is possible.
    fn keep(&self, place: &Place) -> Option<OpenSnapshot> {
        let snapshot = place.snapshot.as_ref()?.as_root();
        let kind = HolderKind::Mount;
        self.pool
            .holders()
            .open_snapshot(&snapshot, kind, &self.mount)
    }

    /// Returns the context with the class of a read, if a policy is in force.
    fn with_class(
        &self,
        context: RequestContext,
        (node, file): (NodeId, &OpenFile),
        offset_bytes: u64,
        len_bytes: u64,
    ) -> RequestContext {
        let active = self.classifiers.as_ref().filter(|all| all.is_active());
        let Some(classifiers) = active else {
            return context;
        };
        let path = || self.items.path_in_snapshot(node);
        let file = FileRead {
            path: file.path.get_or_init(path),
            size_bytes: file.volume.size_bytes(),
            offset_bytes,
            len_bytes,
        };
        let class = classifiers.class_of_file(context, &file);
        RequestContext { class, ..context }
    }

    /// Returns the content of a regular file, and whether its zeroes were holes.
    fn content(&self, node: NodeId) -> Result<(ObjectRoot, bool), Errno> {
        match self.item(node)? {
            (_, _, Item::Single(shown)) => Ok((shown.root, true)),
            (_, _, Item::Entry(entry)) => match entry.kind {
                EntryKind::File { content, sparse } => Ok((content, sparse)),
                EntryKind::Directory { .. } => Err(Errno::ISDIR),
                _ => Err(Errno::NXIO),
            },
            (_, _, Item::Above(_)) => Err(Errno::ISDIR),
        }
    }

    /// Returns the extended attributes of a stored entry.
    fn xattrs(&self, node: NodeId) -> Result<Xattrs, Errno> {
        if node == NodeId::ROOT {
            return Ok(Xattrs::new());
        }
        match self.item(node)? {
            (_, _, Item::Entry(entry)) => Ok(entry.xattrs),
            _ => Ok(Xattrs::new()),
        }
    }
}

impl FileSystem for SnapshotFiles {
    fn lookup(&self, parent: NodeId, name: &[u8]) -> Result<Node, Errno> {
        let place = self.place(parent)?;
        let (number, item) = match self.items.find(&place, name) {
            Err(Missing::Errno(Errno::NOENT)) if !is_view(&place) => {
                return Ok(Node::absent(FOR_EVER));
            }
            found => found.map_err(|missing| self.refuse(parent, missing))?,
        };
        Ok(lines::node(&self.items, &place, (number, name, &item)))
    }

    fn is_quick(&self, node: NodeId) -> bool {
        // Both the node's directory and, for a directory, its own entries must be in memory.
        let in_memory = |place: Arc<Place>| self.items.are_cached(&place);
        let above = self.items.places.of(node);
        above.is_none_or(|(place, _)| in_memory(place))
            && self.items.places.at(node).is_none_or(in_memory)
    }

    fn is_cached(
        &self,
        context: RequestContext,
        _node: NodeId,
        handle: Handle,
        offset: u64,
        len_bytes: u64,
    ) -> bool {
        let file = self.open.get(handle);
        file.is_ok_and(|file| {
            let able = file.volume.capabilities();
            able.is_cached(context, offset, len_bytes)
        })
    }

    fn forget(&self, node: NodeId, lookups: u64) {
        self.items.places.forget(node, lookups);
    }

    fn attributes(&self, node: NodeId) -> Result<(Attributes, Duration), Errno> {
        if node == NodeId::ROOT {
            return Ok((Attributes::of_directory(node.0, Time::default()), FOR_EVER));
        }
        match self.items.item(node) {
            Ok((place, name, item)) => Ok((of_item(&place, &name, &item), lines::valid(&item))),
            Err(missing) => {
                // The top of a deleted snapshot has no name, but may still be open.
                let open = self.items.places.at(node);
                let top = open.as_deref().and_then(of_top);
                let top = top.map(|attributes| (attributes, NOT_AT_ALL));
                top.ok_or_else(|| self.refuse(node, missing))
            }
        }
    }

    fn read_link(&self, node: NodeId) -> Result<Vec<u8>, Errno> {
        match self.item(node)? {
            (_, _, Item::Above(Target::Link(target))) => Ok(target),
            (_, _, Item::Entry(entry)) => match entry.kind {
                EntryKind::Symlink { target } => Ok(target),
                _ => Err(Errno::INVAL),
            },
            _ => Err(Errno::INVAL),
        }
    }

    fn open(&self, node: NodeId, writes: bool) -> Result<Opened, Errno> {
        if writes {
            return Err(Errno::ROFS);
        }
        let (root, _) = self.content(node)?;
        let (place, _) = self.items.places.of(node).ok_or(Errno::STALE)?;
        Ok(Opened {
            handle: self.open.open(&self.reader, root, self.keep(&place)),
            keep_cache: true,
        })
    }

    fn release(&self, _node: NodeId, handle: Handle) {
        self.open.close(handle);
    }

    fn read(
        &self,
        context: RequestContext,
        node: NodeId,
        handle: Handle,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, Errno> {
        let file = self.open.get(handle)?;
        let context = self.with_class(context, (node, &file), offset, into.len() as u64);
        read_within(&file.volume, context, offset, into).map_err(|error| {
            let refused = errno(&error);
            let cause = error.source.and_then(|e| e.downcast::<StoreError>().ok());
            if let Some(cause) = cause {
                self.refuse(node, Missing::Store(*cause));
            }
            refused
        })
    }

    fn seek(
        &self,
        context: RequestContext,
        node: NodeId,
        handle: Handle,
        offset: u64,
        target: SeekTarget,
    ) -> Result<u64, Errno> {
        let (root, sparse) = self.content(node)?;
        match (sparse, target) {
            (true, _) => seek_extent(&self.open.get(handle)?.volume, context, offset, target),
            (false, _) if offset >= root.len => Err(Errno::NXIO),
            // The source stored these zeroes as data.
            (false, SeekTarget::Data) => Ok(offset),
            (false, SeekTarget::Hole) => Ok(root.len),
        }
    }

    fn open_directory(&self, node: NodeId) -> Result<Opened, Errno> {
        let place = self.place(node)?;
        if is_view(&place) {
            return Ok(Opened::default());
        }
        let kept = self.keep(&place);
        let entry = self.items.places.look_up(&place, 0);
        Ok(Opened {
            handle: self.open.open_directory(entry, kept),
            keep_cache: true,
        })
    }

    fn release_directory(&self, _node: NodeId, handle: Handle) {
        if let Some(entry) = self.open.close_directory(handle) {
            self.items.places.forget(entry, 1);
        }
    }

    fn list(
        &self,
        node: NodeId,
        _handle: Handle,
        from: u64,
        listing: &mut Listing<'_>,
    ) -> Result<(), Errno> {
        let place = self.place(node)?;
        let listed = lines::fill(&self.items, &place, from, listing);
        listed.map_err(|missing| self.refuse(node, missing))
    }

    fn xattr(&self, node: NodeId, name: &[u8]) -> Result<Vec<u8>, Errno> {
        let xattrs = self.xattrs(node)?;
        let found = xattrs.into_iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value).ok_or(Errno::NODATA)
    }

    fn xattr_names(&self, node: NodeId) -> Result<Vec<Vec<u8>>, Errno> {
        let xattrs = self.xattrs(node)?;
        Ok(xattrs.into_iter().map(|(name, _)| name).collect())
    }

    fn statistics(&self) -> Statistics {
        const UNIT: u64 = 4096;
        Statistics {
            blocks: self.pool.record().stored_bytes.div_ceil(UNIT),
            blocks_free: 0,
            block_bytes: UNIT as u32,
        }
    }
}

/// Returns true if the contents of the directory may change.
fn is_view(place: &Place) -> bool {
    matches!(place.contents, Contents::View(_))
}
