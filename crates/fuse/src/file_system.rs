//! Defines the `FileSystem` interface: the operations of a mounted file system.
//!
//! [`crate::VolumeFiles`] implements it, and the program over its pool.
//! Contract: many threads may call all methods at once. Errors are error numbers of Linux, as they
//! reach the calling process. The default methods give the answers of a file system without that
//! operation. The session has checked lengths and names: names are not empty and contain no `/` and
//! no NUL.

use crate::listing::Listing;
use crate::wire::{Handle, NodeId};
use rustix::io::Errno;
use std::time::Duration;
use volume::RequestContext;

pub use crate::wire::replies::{Attributes, Node, Statistics, Time, file_type};

impl Node {
    /// Makes the answer that a name does not exist, valid for this time.
    pub fn absent(valid: Duration) -> Self {
        Self {
            valid,
            ..Self::default()
        }
    }
}

impl Attributes {
    /// Makes a directory that everyone may list. The user of this process owns it.
    pub fn of_directory(inode: u64, modified: Time) -> Self {
        Self {
            inode,
            modified,
            changed: modified,
            mode: file_type::DIRECTORY | 0o555,
            links: 1,
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            block_bytes: 4096,
            ..Self::default()
        }
    }

    /// Returns the space of a file that may have holes, in units of 512 bytes.
    ///
    /// The value is too small on purpose, because then programs that copy look for holes. Nobody
    /// adds up the space of single files in a store that keeps equal bytes once.
    pub fn sparse_blocks(size_bytes: u64) -> u64 {
        (size_bytes / 512).saturating_sub(1)
    }
}

/// An opened file or directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Identifies the file in later calls. Several opened files may share it.
    pub handle: Handle,
    /// The content never changes, so the kernel's page cache keeps it. Otherwise every read and
    /// write of the file comes here. For directories: the listing may be kept.
    pub keep_cache: bool,
}

/// Method by which [`FileSystem::zero`] makes a range read as zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zeroing {
    /// The space is freed (`FALLOC_FL_PUNCH_HOLE`).
    Hole,
    /// The space may be freed (`FALLOC_FL_ZERO_RANGE`).
    Range,
}

/// Target of [`FileSystem::seek`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekTarget {
    /// The next byte that is not in a hole.
    Data,
    /// The next hole; the end of the file is one.
    Hole,
}

/// A file system.
pub trait FileSystem: Send + Sync {
    /// Finds `name` in a directory.
    ///
    /// A returned node counts as looked up once more, until [`FileSystem::forget`] subtracts that.
    /// If the name does not exist: `NOENT`, or [`Node::absent`] when the kernel may remember that.
    fn lookup(&self, parent: NodeId, name: &[u8]) -> Result<Node, Errno>;

    /// Returns true if names, attributes and opening of `node` likely need no device.
    ///
    /// Never waits itself. The answer may be wrong either way. Quick requests are served at once,
    /// the others by other threads.
    fn is_quick(&self, node: NodeId) -> bool;

    /// Answers the same for reading a range of an opened file.
    fn is_cached(
        &self,
        context: RequestContext,
        node: NodeId,
        handle: Handle,
        offset: u64,
        len_bytes: u64,
    ) -> bool;

    /// Subtracts `lookups` from the node's count. At zero the kernel has forgotten the node.
    fn forget(&self, _node: NodeId, _lookups: u64) {}

    /// Returns the attributes for stat(2), and how long they are valid.
    fn attributes(&self, node: NodeId) -> Result<(Attributes, Duration), Errno>;

    /// Changes the length, in bytes.
    fn set_size(&self, _node: NodeId, _size_bytes: u64) -> Result<(), Errno> {
        Err(Errno::ROFS)
    }

    /// Returns the target of a symbolic link.
    fn read_link(&self, _node: NodeId) -> Result<Vec<u8>, Errno> {
        Err(Errno::INVAL)
    }

    /// Opens a file, also for writing if `writes`.
    fn open(&self, node: NodeId, writes: bool) -> Result<Opened, Errno>;

    /// Closes a file that [`FileSystem::open`] opened.
    fn release(&self, _node: NodeId, _handle: Handle) {}

    /// Fills `into` from `offset` and returns the number of bytes. It is smaller only at the end.
    fn read(
        &self,
        context: RequestContext,
        node: NodeId,
        handle: Handle,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, Errno>;

    /// Stores `data` at `offset` and returns the number of stored bytes.
    fn write(
        &self,
        _context: RequestContext,
        _node: NodeId,
        _handle: Handle,
        _offset: u64,
        _data: &[u8],
    ) -> Result<usize, Errno> {
        Err(Errno::ROFS)
    }

    /// Stores all of `data` at `offset` if that needs no waiting. Returns false if it would; then
    /// nothing was written.
    fn write_now(
        &self,
        _context: RequestContext,
        _node: NodeId,
        _handle: Handle,
        _offset: u64,
        _data: &[u8],
    ) -> Result<bool, Errno> {
        Ok(false)
    }

    /// Returns when all writes of the file that were acknowledged survive power loss.
    fn sync(&self, _context: RequestContext, _node: NodeId, _handle: Handle) -> Result<(), Errno> {
        Ok(())
    }

    /// Makes a range within the file read as zeroes.
    fn zero(
        &self,
        _context: RequestContext,
        _node: NodeId,
        _handle: Handle,
        _how: Zeroing,
        _offset: u64,
        _len_bytes: u64,
    ) -> Result<(), Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// Returns the position of the target at `offset` or after it; `NXIO` when there is none.
    fn seek(
        &self,
        context: RequestContext,
        node: NodeId,
        handle: Handle,
        offset: u64,
        target: SeekTarget,
    ) -> Result<u64, Errno>;

    /// Opens a directory.
    fn open_directory(&self, _node: NodeId) -> Result<Opened, Errno> {
        Ok(Opened::default())
    }

    /// Closes a directory that [`FileSystem::open_directory`] opened.
    fn release_directory(&self, _node: NodeId, _handle: Handle) {}

    /// Adds lines to `listing`. It starts at the position that the last line gave, or at the start
    /// if `from` is 0. An added node counts as looked up.
    fn list(
        &self,
        node: NodeId,
        handle: Handle,
        from: u64,
        listing: &mut Listing<'_>,
    ) -> Result<(), Errno>;

    /// Returns an extended attribute's value; `NODATA` when it does not exist.
    fn xattr(&self, _node: NodeId, _name: &[u8]) -> Result<Vec<u8>, Errno> {
        Err(Errno::NODATA)
    }

    /// Returns the names of the extended attributes.
    fn xattr_names(&self, _node: NodeId) -> Result<Vec<Vec<u8>>, Errno> {
        Ok(Vec::new())
    }

    /// Returns the numbers of the whole file system.
    fn statistics(&self) -> Statistics {
        Statistics::default()
    }
}
