//! Shows volumes as files of fixed length: a [`FileSystem`] over [`volume::Volume`].
//!
//! The program shows this beside its snapshots; tests and examples mount it alone.
//! Invariant: a node is never reused for another volume. Written data is durable after a sync of
//! the file, as with a disk, and not before. Other front ends may create, resize, delete and write
//! volumes. The kernel therefore caches neither names nor bytes of anything that can change, so
//! that every access shows the current state (decision 21).

mod names;
mod nodes;
mod ranges;
mod registry;

use ranges::within;
pub use ranges::{read_within, seek_extent};
pub use registry::{FixedVolumes, VolumeEntry, VolumeList, Volumes};

use crate::errno::errno;
use crate::file_system::{
    Attributes, FileSystem, Node, Opened, SeekTarget, Time, Zeroing, file_type,
};
use crate::listing::{Full, Listing};
use crate::wire::{Handle, NodeId};
use media::Clock;
use names::{Child, child, children, join};
use nodes::{Known, KnownVolume, Nodes};
use parking_lot::RwLock;
use rustix::io::Errno;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use units::UnixNanos;
use volume::{Checked, Durability, RequestContext, Volume};

/// Validity of names and attributes. Volumes may be created, resized and deleted elsewhere, so the
/// kernel asks each time.
const VALID: Duration = Duration::ZERO;
/// Preferred request size, bytes: that of the kernel's requests.
const BLOCK_BYTES: u32 = 1 << 20;

type OpenVolume = Arc<Checked<Arc<dyn Volume>>>;

/// An open file.
struct OpenFile {
    volume: OpenVolume,
    /// Its entry in the list at the time it was opened.
    entry: VolumeEntry,
}

/// Volumes as files.
pub struct VolumeFiles {
    volumes: Arc<dyn Volumes>,
    clock: Arc<dyn Clock>,
    nodes: Nodes,
    open: RwLock<HashMap<Handle, OpenFile>>,
    handles: AtomicU64,
    /// Start time of this file system. Files of unknown modification time show it, so that programs
    /// which look for changes by time read them.
    begun: Time,
    /// Added to nodes to get the inode numbers that users see.
    inodes_from: u64,
}

impl VolumeFiles {
    /// Shows `volumes`. `clock` gives modification times.
    pub fn new(volumes: Arc<dyn Volumes>, clock: Arc<dyn Clock>) -> Self {
        let UnixNanos(now) = clock.now();
        Self {
            volumes,
            clock,
            begun: time(now),
            nodes: Nodes::default(),
            open: RwLock::default(),
            handles: AtomicU64::new(1),
            inodes_from: 0,
        }
    }

    /// Shows other inode numbers, for use as part of a larger file system.
    pub fn with_inodes_from(self, inodes_from: u64) -> Self {
        Self {
            inodes_from,
            ..self
        }
    }

    fn inode(&self, node: NodeId) -> u64 {
        self.inodes_from | node.0
    }

    /// Returns the volume of a node.
    fn volume<'k>(&self, known: &'k Known) -> Result<(&'k KnownVolume, VolumeEntry), Errno> {
        match known {
            Known::Directory(_) => Err(Errno::ISDIR),
            Known::Volume(volume) => {
                let list = self.volumes.list();
                let entry = list.describe(volume.id).ok_or(Errno::STALE)?;
                Ok((volume, entry.clone()))
            }
        }
    }

    /// Returns the path of a directory, and its parent.
    fn directory(&self, node: NodeId) -> Result<(String, NodeId), Errno> {
        if node == NodeId::ROOT {
            return Ok((String::new(), node));
        }
        match &*self.nodes.known(node)? {
            Known::Directory(directory) => Ok((directory.path.clone(), directory.parent)),
            Known::Volume(_) => Err(Errno::NOTDIR),
        }
    }

    fn directory_attributes(&self, node: NodeId) -> Attributes {
        Attributes::of_directory(self.inode(node), self.begun)
    }

    fn file_attributes(&self, node: NodeId, entry: &VolumeEntry, written: i64) -> Attributes {
        let modified = match (written, entry.modified) {
            (i64::MIN, modified) => modified.unwrap_or(self.begun),
            (nanos, _) => time(nanos),
        };
        Attributes {
            size_bytes: entry.size_bytes,
            blocks: Attributes::sparse_blocks(entry.size_bytes),
            mode: file_type::REGULAR | if entry.frozen { 0o400 } else { 0o600 },
            block_bytes: BLOCK_BYTES,
            ..Attributes::of_directory(self.inode(node), modified)
        }
    }

    fn opened(&self, handle: Handle) -> Result<OpenVolume, Errno> {
        let open = self.open.read();
        let file = open.get(&handle).ok_or(Errno::BADF)?;
        Ok(Arc::clone(&file.volume))
    }

    /// Returns the entry of a state that is open and no longer listed. It never changes, and its
    /// readers ask for its length.
    fn open_state(&self, known: &Known) -> Option<VolumeEntry> {
        let Known::Volume(volume) = known else {
            return None;
        };
        let open = self.open.read();
        let mut states = open.values().map(|file| &file.entry);
        let found = states.find(|entry| entry.frozen && entry.id == volume.id);
        found.cloned()
    }

    fn was_written(&self, node: NodeId) -> Result<(), Errno> {
        let UnixNanos(now) = self.clock.now();
        if let Known::Volume(volume) = &*self.nodes.known(node)? {
            volume.written.fetch_max(now, Relaxed);
        }
        Ok(())
    }
}

fn time(nanos: i64) -> Time {
    const SECOND: i64 = 1_000_000_000;
    Time {
        seconds: nanos.div_euclid(SECOND),
        nanos: nanos.rem_euclid(SECOND) as u32,
    }
}

impl FileSystem for VolumeFiles {
    /// Opening and closing a volume may be slow.
    fn is_quick(&self, node: NodeId) -> bool {
        self.directory(node).is_ok() && self.volumes.is_listed()
    }

    fn is_cached(
        &self,
        context: RequestContext,
        _node: NodeId,
        handle: Handle,
        offset: u64,
        len_bytes: u64,
    ) -> bool {
        let volume = self.opened(handle);
        volume.is_ok_and(|volume| {
            let able = volume.capabilities();
            able.is_cached(context, offset, len_bytes)
        })
    }

    fn lookup(&self, parent: NodeId, name: &[u8]) -> Result<Node, Errno> {
        let (path, _) = self.directory(parent)?;
        let name = std::str::from_utf8(name).map_err(|_| Errno::NOENT)?;
        let list = self.volumes.list();
        let found = child(&list, &path, name);
        let (node, attributes) = match found.ok_or(Errno::NOENT)? {
            Child::Directory => {
                let node = self.nodes.of_directory(join(&path, name), parent);
                (node, self.directory_attributes(node))
            }
            Child::Volume(entry) => {
                let node = self.nodes.of_volume(entry.id);
                (node, self.attributes(node)?.0)
            }
        };
        Ok(Node {
            node,
            attributes,
            valid: VALID,
        })
    }

    fn attributes(&self, node: NodeId) -> Result<(Attributes, Duration), Errno> {
        if self.directory(node).is_ok() {
            return Ok((self.directory_attributes(node), VALID));
        }
        let known = self.nodes.known(node)?;
        match self.volume(&known) {
            Ok((volume, entry)) => {
                let written = volume.written.load(Relaxed);
                Ok((self.file_attributes(node, &entry, written), VALID))
            }
            Err(e) => {
                let entry = self.open_state(&known).ok_or(e)?;
                Ok((self.file_attributes(node, &entry, i64::MIN), VALID))
            }
        }
    }

    /// Accepts only the current size: a disk keeps its size.
    fn set_size(&self, node: NodeId, size_bytes: u64) -> Result<(), Errno> {
        let (attributes, _) = self.attributes(node)?;
        match attributes.size_bytes == size_bytes {
            true => Ok(()),
            false => Err(Errno::PERM),
        }
    }

    fn open(&self, node: NodeId, writes: bool) -> Result<Opened, Errno> {
        let known = self.nodes.known(node)?;
        let (volume, entry) = self.volume(&known)?;
        if writes && entry.frozen {
            return Err(Errno::ROFS);
        }
        let volume = self.volumes.open(volume.id).map_err(|e| errno(&e))?;
        let handle = Handle(self.handles.fetch_add(1, Relaxed));
        let mut open = self.open.write();
        let keep_cache = entry.frozen;
        let volume = Arc::new(Checked::new(volume));
        open.insert(handle, OpenFile { volume, entry });
        Ok(Opened { handle, keep_cache })
    }

    fn release(&self, _node: NodeId, handle: Handle) {
        let mut open = self.open.write();
        let closed = open.remove(&handle);
        drop(open);
        // Closing a volume may be slow, so do it outside of the lock.
        drop(closed);
    }

    fn read(
        &self,
        context: RequestContext,
        _node: NodeId,
        handle: Handle,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, Errno> {
        let volume = self.opened(handle)?;
        read_within(&*volume, context, offset, into).map_err(|e| errno(&e))
    }

    fn write(
        &self,
        context: RequestContext,
        node: NodeId,
        handle: Handle,
        offset: u64,
        data: &[u8],
    ) -> Result<usize, Errno> {
        let volume = self.opened(handle)?;
        let len = within(offset, data.len(), volume.size_bytes());
        let fits = data.get(..len).unwrap_or_default();
        if fits.is_empty() && !data.is_empty() {
            return Err(Errno::NOSPC);
        }
        volume
            .write(context, offset, fits, Durability::Volatile)
            .map_err(|e| errno(&e))?;
        self.was_written(node)?;
        Ok(len)
    }

    fn write_now(
        &self,
        context: RequestContext,
        node: NodeId,
        handle: Handle,
        offset: u64,
        data: &[u8],
    ) -> Result<bool, Errno> {
        let volume = self.opened(handle)?;
        // A write that does not fit is refused by the other method.
        if within(offset, data.len(), volume.size_bytes()) < data.len() {
            return Ok(false);
        }
        let written = volume.capabilities().write_now(context, offset, data);
        let written = written.map_err(|e| errno(&e))?;
        if written {
            self.was_written(node)?;
        }
        Ok(written)
    }

    fn sync(&self, context: RequestContext, _node: NodeId, handle: Handle) -> Result<(), Errno> {
        self.opened(handle)?.flush(context).map_err(|e| errno(&e))
    }

    fn zero(
        &self,
        context: RequestContext,
        node: NodeId,
        handle: Handle,
        how: Zeroing,
        offset: u64,
        len_bytes: u64,
    ) -> Result<(), Errno> {
        let volume = self.opened(handle)?;
        let end = offset.checked_add(len_bytes).ok_or(Errno::FBIG)?;
        let size_bytes = volume.size_bytes();
        let done = match how {
            // There is no space to free beyond the end.
            Zeroing::Hole => {
                let len = end.min(size_bytes).saturating_sub(offset);
                volume.discard(context, offset.min(size_bytes), len)
            }
            Zeroing::Range if end > size_bytes => return Err(Errno::NOSPC),
            Zeroing::Range => {
                let volatile = Durability::Volatile;
                volume.write_zeroes(context, offset, len_bytes, true, volatile)
            }
        };
        done.map_err(|e| errno(&e))?;
        self.was_written(node)
    }

    fn seek(
        &self,
        context: RequestContext,
        _node: NodeId,
        handle: Handle,
        offset: u64,
        target: SeekTarget,
    ) -> Result<u64, Errno> {
        seek_extent(&*self.opened(handle)?, context, offset, target)
    }

    fn list(
        &self,
        node: NodeId,
        _handle: Handle,
        from: u64,
        listing: &mut Listing<'_>,
    ) -> Result<(), Errno> {
        let (path, parent) = self.directory(node)?;
        let above = match node == NodeId::ROOT {
            true => NodeId::ROOT.0,
            false => self.inode(parent),
        };
        let list = self.volumes.list();
        let children = children(&list, &path);
        let mut add_all = || -> Result<(), Full> {
            let first = listing.add_dots(from, self.inode(node), above)?;
            for (number, (name, child)) in children.iter().enumerate().skip(first) {
                // The kernel looks files up separately: there are few, and their sizes change.
                let (of_child, mode) = match child {
                    Child::Volume(entry) => (self.nodes.of_volume(entry.id), file_type::REGULAR),
                    Child::Directory => {
                        let below = self.nodes.of_directory(join(&path, name), node);
                        (below, file_type::DIRECTORY)
                    }
                };
                let next = Listing::position_after(number);
                listing.add(name.as_bytes(), self.inode(of_child), mode, next)?;
            }
            Ok(())
        };
        let _ = add_all();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
