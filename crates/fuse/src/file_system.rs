//! The waist of this room: what a mounted file system must be able to do.
//!
//! Contract: all methods may be called from many threads at once. Errors are error numbers of
//! Linux, as they reach the asking process. A method that a file system does not have answers as
//! its default here does. The session has checked lengths and names: names are not empty, hold no
//! `/` and no NUL. Implemented by [`crate::VolumeFiles`] and by the program over its pool.

use crate::listing::Listing;
use crate::wire::{Handle, NodeId};
use rustix::io::Errno;
use std::time::Duration;
use volume::RequestContext;

pub use crate::wire::replies::{Attributes, Node, Statistics, Time, file_type};

impl Node {
    /// The answer that a name is not there and will not be for a while.
    pub fn absent(valid: Duration) -> Self {
        Self {
            valid,
            ..Self::default()
        }
    }
}

impl Attributes {
    /// A directory that everyone may list, owned by whoever runs this process.
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

    /// Space taken, units of 512 bytes, of a file that may have holes: too little on purpose,
    /// because then programs that copy look for holes. Nobody adds up the space of one file in a
    /// store that keeps equal bytes once.
    pub fn sparse_blocks(size_bytes: u64) -> u64 {
        (size_bytes / 512).saturating_sub(1)
    }
}

/// An opened file or directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Names it in later calls; may be the same for several.
    pub handle: Handle,
    /// Its content never changes: the page cache keeps what it has. Otherwise every read and write of
    /// the file comes here. For directories: the listing may be kept.
    pub keep_cache: bool,
}

/// How [`FileSystem::zero`] makes a range read as zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zeroing {
    /// The space is given back (`FALLOC_FL_PUNCH_HOLE`).
    Hole,
    /// The space may be given back (`FALLOC_FL_ZERO_RANGE`).
    Range,
}

/// What [`FileSystem::seek`] looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekTarget {
    /// The next byte that is not in a hole.
    Data,
    /// The next hole; the end of the file is one.
    Hole,
}

/// A file system.
pub trait FileSystem: Send + Sync {
    /// Finds `name` in a directory. A node that is returned counts as looked up once more, until
    /// [`FileSystem::forget`] takes that back. `NOENT`, or [`Node::absent`] when the kernel may
    /// remember that.
    fn lookup(&self, parent: NodeId, name: &[u8]) -> Result<Node, Errno>;

    /// True if names, attributes and opening of `node` are likely to need no device. Never waits
    /// itself; may be wrong both ways. What is quick is served at once, the rest by other threads.
    fn is_quick(&self, node: NodeId) -> bool;

    /// The same for reading a range of an opened file.
    fn is_cached(
        &self,
        context: RequestContext,
        node: NodeId,
        handle: Handle,
        offset: u64,
        len_bytes: u64,
    ) -> bool;

    /// The kernel gives `lookups` back; with the last one it has forgotten the node.
    fn forget(&self, _node: NodeId, _lookups: u64) {}

    /// What stat(2) shows, and how long it holds.
    fn attributes(&self, node: NodeId) -> Result<(Attributes, Duration), Errno>;

    /// Changes the length, in bytes.
    fn set_size(&self, _node: NodeId, _size_bytes: u64) -> Result<(), Errno> {
        Err(Errno::ROFS)
    }

    /// The target of a symbolic link.
    fn read_link(&self, _node: NodeId) -> Result<Vec<u8>, Errno> {
        Err(Errno::INVAL)
    }

    /// Opens a file, also for writing if `writes`.
    fn open(&self, node: NodeId, writes: bool) -> Result<Opened, Errno>;

    /// Closes what [`FileSystem::open`] opened.
    fn release(&self, _node: NodeId, _handle: Handle) {}

    /// Fills `into` from `offset` and says with how many bytes: fewer only at the end.
    fn read(
        &self,
        context: RequestContext,
        node: NodeId,
        handle: Handle,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, Errno>;

    /// Stores `data` at `offset` and says how many bytes of it.
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

    /// Stores all of `data` at `offset` if nothing has to be waited for; false when something has, and
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

    /// The place of what is looked for, at `offset` or after it; `NXIO` when there is none.
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

    /// Closes what [`FileSystem::open_directory`] opened.
    fn release_directory(&self, _node: NodeId, _handle: Handle) {}

    /// Adds lines to `listing`, from where the line before said, or from the start if `from` is
    /// 0. A node that was added counts as looked up.
    fn list(
        &self,
        node: NodeId,
        handle: Handle,
        from: u64,
        listing: &mut Listing<'_>,
    ) -> Result<(), Errno>;

    /// An extended attribute's value; `NODATA` when it is not there.
    fn xattr(&self, _node: NodeId, _name: &[u8]) -> Result<Vec<u8>, Errno> {
        Err(Errno::NODATA)
    }

    /// Names of the extended attributes.
    fn xattr_names(&self, _node: NodeId) -> Result<Vec<Vec<u8>>, Errno> {
        Ok(Vec::new())
    }

    /// Numbers of the whole file system.
    fn statistics(&self) -> Statistics {
        Statistics::default()
    }
}
