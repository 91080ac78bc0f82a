//! The pool's [`FileSystem`]: routes requests to the files of snapshots, volumes and images.
//! Sessions of the crate `fuse` call this from many threads.
//!
//! Invariant: the two highest bits of a node say which of the three file systems it belongs to.

use super::places::{DISKS, IMAGES};
use super::snapshot_files::{SnapshotFiles, Tell};
use super::snapshot_list::SnapshotList;
use crate::directories::Directories;
use classes::Classifiers;
use fuse::{
    Attributes, Errno, FileSystem, Handle, Listing, Node, NodeId, Opened, SeekTarget, Statistics,
    VolumeFiles, Volumes, Zeroing,
};
use jiff::tz::TimeZone;
use media::SystemClock;
use std::sync::Arc;
use std::time::Duration;
use volume::RequestContext;

/// The bits that select the file system of a node.
const FILE_SYSTEM_BITS: u64 = DISKS | IMAGES;

/// The pool as a file system.
pub struct PoolFiles {
    snapshots: SnapshotFiles,
    volumes: VolumeFiles,
    images: VolumeFiles,
}

/// Sources of the files that a mount shows.
pub struct FilesSource {
    /// Snapshots.
    pub snapshots: Arc<SnapshotList>,
    /// Contents of the directory `volumes`.
    pub volumes: Arc<dyn Volumes>,
    /// Contents of the directory `images`.
    pub images: Arc<dyn Volumes>,
    /// Time zone of the snapshots' names.
    pub zone: TimeZone,
    /// Cache of stored directories.
    pub directories: Arc<Directories>,
    /// Path of the mount, for messages and lists of holds.
    pub mount: String,
    /// Classify reads of files. `None` without a server.
    pub classifiers: Option<Arc<Classifiers>>,
}

impl PoolFiles {
    /// Shows a pool. `tell` is called about damage, once for each file and directory of snapshots.
    pub fn new(source: FilesSource, tell: Box<Tell>) -> Self {
        let FilesSource {
            snapshots,
            zone,
            directories,
            mount,
            classifiers,
            ..
        } = source;
        let disks =
            |volumes, bits| VolumeFiles::new(volumes, Arc::new(SystemClock)).with_inodes_from(bits);
        Self {
            snapshots: SnapshotFiles::new(snapshots, zone, directories, mount, classifiers, tell),
            volumes: disks(source.volumes, DISKS),
            images: disks(source.images, DISKS | IMAGES),
        }
    }

    /// Returns the number of directories that the kernel knows nodes of: for tests.
    pub fn places(&self) -> usize {
        self.snapshots.places()
    }

    /// Returns the file system of a node, and the node's number there.
    fn route(&self, node: NodeId) -> (&dyn FileSystem, NodeId) {
        let own = NodeId(node.0 & !FILE_SYSTEM_BITS);
        match node.0 & FILE_SYSTEM_BITS {
            DISKS => (&self.volumes, own),
            FILE_SYSTEM_BITS => (&self.images, own),
            _ => (&self.snapshots, node),
        }
    }
}

/// Defines methods that only pass a request on with another node number.
macro_rules! routed {
    ($($method:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        fn $method(&self, node: NodeId, $($argument: $type),*) -> $answer {
            let (files, node) = self.route(node);
            files.$method(node, $($argument),*)
        }
    )*};
}

/// The same for methods whose first argument is the request's context.
macro_rules! routed_with_context {
    ($($method:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        fn $method(
            &self,
            context: RequestContext,
            node: NodeId,
            $($argument: $type),*
        ) -> $answer {
            let (files, node) = self.route(node);
            files.$method(context, node, $($argument),*)
        }
    )*};
}

impl FileSystem for PoolFiles {
    fn lookup(&self, parent: NodeId, name: &[u8]) -> Result<Node, Errno> {
        let (files, in_files) = self.route(parent);
        let mut found = files.lookup(in_files, name)?;
        if found.node != NodeId::default() {
            found.node.0 |= parent.0 & FILE_SYSTEM_BITS;
        }
        Ok(found)
    }

    fn statistics(&self) -> Statistics {
        self.snapshots.statistics()
    }

    routed! {
        is_quick() -> bool;
        forget(lookups: u64) -> ();
        attributes() -> Result<(Attributes, Duration), Errno>;
        set_size(size_bytes: u64) -> Result<(), Errno>;
        read_link() -> Result<Vec<u8>, Errno>;
        open(writes: bool) -> Result<Opened, Errno>;
        release(handle: Handle) -> ();
        open_directory() -> Result<Opened, Errno>;
        release_directory(handle: Handle) -> ();
        list(handle: Handle, from: u64, listing: &mut Listing<'_>) -> Result<(), Errno>;
        xattr(name: &[u8]) -> Result<Vec<u8>, Errno>;
        xattr_names() -> Result<Vec<Vec<u8>>, Errno>;
    }

    routed_with_context! {
        is_cached(handle: Handle, offset: u64, len_bytes: u64) -> bool;
        read(handle: Handle, offset: u64, into: &mut [u8]) -> Result<usize, Errno>;
        write(handle: Handle, offset: u64, data: &[u8]) -> Result<usize, Errno>;
        write_now(handle: Handle, offset: u64, data: &[u8]) -> Result<bool, Errno>;
        sync(handle: Handle) -> Result<(), Errno>;
        zero(handle: Handle, how: Zeroing, offset: u64, len_bytes: u64) -> Result<(), Errno>;
        seek(handle: Handle, offset: u64, target: SeekTarget) -> Result<u64, Errno>;
    }
}
