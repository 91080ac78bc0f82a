//! Captures a source tree: directory by directory, one `statx` and one `listxattr` for each entry.
//! Backup calls this.
//!
//! Invariant: everything below a top directory is reached through directory handles, one name at a
//! time, without following links. Only metadata are read here; contents go through
//! [`super::open_file`].

pub use super::captured::{Captured, Sameness};

use super::listing::names_in;
use super::open_file::OpenFile;
use super::xattrs::{self, XattrHolder};
use super::{PathError, as_path, join};
use format::recipe::ObjectRoot;
use format::tree::{Entry, EntryKind, Timestamp};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Statx, StatxFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

const STAT_FLAGS: AtFlags = AtFlags::SYMLINK_NOFOLLOW.union(AtFlags::NO_AUTOMOUNT);

/// An open source directory.
#[derive(Debug)]
pub struct Directory {
    fd: OwnedFd,
    path: Vec<u8>,
    /// In a snapshot of the source: the device number there, and that of the source.
    frozen: Option<(u64, u64)>,
}

impl Directory {
    /// Opens a top directory: a path of the command line, so links in it are followed.
    pub fn open(path: &Path) -> Result<Self, PathError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|e| PathError::new("open directory", path, e))?;
        let path = path.as_os_str().as_encoded_bytes().to_vec();
        Ok(Self::of(fd, path))
    }

    /// Wraps a directory that is open already.
    pub fn of_handle(directory: BorrowedFd<'_>, path: &Path) -> Result<Self, PathError> {
        let fd = directory
            .try_clone_to_owned()
            .map_err(|e| PathError::new("open directory", path, e))?;
        let path = path.as_os_str().as_encoded_bytes().to_vec();
        Ok(Self::of(fd, path))
    }

    /// Opens a directory in this one; fails for a link.
    pub fn open_child(&self, name: &CStr) -> Result<Self, PathError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = without_atime(flags, |flags| {
            rustix::fs::openat(&self.fd, name, flags, Mode::empty())
        })
        .map_err(|e| self.error("open directory", name, e))?;
        let path = join(&self.path, name.to_bytes());
        let frozen = self.frozen;
        Ok(Self { fd, path, frozen })
    }

    /// Returns the same directory in a snapshot of the source, with the path that it has here.
    /// `devices`: the device number in the snapshot, and the one that is shown instead.
    pub fn frozen(&self, in_snapshot: OwnedFd, devices: (u64, u64)) -> Self {
        Self {
            fd: in_snapshot,
            path: self.path.clone(),
            frozen: Some(devices),
        }
    }

    /// Returns true in a snapshot of the source.
    pub fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    fn of(fd: OwnedFd, path: Vec<u8>) -> Self {
        let frozen = None;
        Self { fd, path, frozen }
    }

    /// The path by which it was reached.
    pub fn path(&self) -> &Path {
        as_path(&self.path)
    }

    /// Returns the path of an entry.
    pub fn path_of(&self, name: &CStr) -> PathBuf {
        as_path(&join(&self.path, name.to_bytes())).to_owned()
    }

    /// All names except `.` and `..`, sorted by bytes.
    pub fn names(&self) -> Result<Vec<CString>, PathError> {
        names_in(self.fd.as_fd()).map_err(|e| PathError::new("list", self.path(), e))
    }

    /// Returns the metadata of an entry without extended attributes: one system call, two for
    /// links.
    pub fn stat(&self, name: &CStr) -> Result<Captured, PathError> {
        let stat = rustix::fs::statx(&self.fd, name, STAT_FLAGS, StatxFlags::BASIC_STATS)
            .map_err(|e| self.error("stat", name, e))?;
        self.captured(name, name.to_bytes().to_vec(), &stat)
    }

    /// Returns all metadata of an entry, read by name. `unreadable` collects errors of attributes;
    /// the entry then lacks these.
    ///
    /// For files whose content is read anyway, [`Directory::stat`] and [`OpenFile::xattrs`] are
    /// cheaper and safer.
    pub fn capture(
        &self,
        name: &CStr,
        unreadable: &mut Vec<PathError>,
    ) -> Result<Captured, PathError> {
        let mut captured = self.stat(name)?;
        captured.entry.xattrs = self.xattrs(name, unreadable);
        Ok(captured)
    }

    /// Returns the extended attributes of an entry, read by name, sorted by name.
    pub fn xattrs(&self, name: &CStr, unreadable: &mut Vec<PathError>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let holder = XattrHolder::beneath(&self.fd, &self.path, name);
        xattrs::read_all(&holder, unreadable)
    }

    /// Returns all metadata of this directory under the given name: for tops that have no parent in
    /// the snapshot.
    pub fn capture_self(
        &self,
        name: &[u8],
        unreadable: &mut Vec<PathError>,
    ) -> Result<Captured, PathError> {
        let flags = AtFlags::EMPTY_PATH | STAT_FLAGS;
        let stat = rustix::fs::statx(&self.fd, c"", flags, StatxFlags::BASIC_STATS)
            .map_err(|e| PathError::new("stat", self.path(), e))?;
        let mut captured = self.captured(c"", name.to_vec(), &stat)?;
        let holder = XattrHolder::opened(self.fd.as_fd(), self.path());
        captured.entry.xattrs = xattrs::read_all(&holder, unreadable);
        Ok(captured)
    }

    /// Opens a regular file for reading, without changing its access time where that is allowed.
    pub fn open_file(&self, name: &CStr) -> Result<OpenFile, PathError> {
        // If a pipe has replaced the file, opening it must not wait for a writer.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = without_atime(flags, |flags| {
            rustix::fs::openat(&self.fd, name, flags, Mode::empty())
        })
        .map_err(|e| self.error("open", name, e))?;
        OpenFile::new(fd, self.path_of(name))
    }

    fn captured(&self, name: &CStr, stored: Vec<u8>, stat: &Statx) -> Result<Captured, PathError> {
        let mode = u32::from(stat.stx_mode);
        let rdev = rustix::fs::makedev(stat.stx_rdev_major, stat.stx_rdev_minor);
        let device = rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor);
        let device = match self.frozen {
            Some((there, shown)) if there == device => shown,
            _ => device,
        };
        let content = ObjectRoot::EMPTY;
        let kind = match FileType::from_raw_mode(mode) {
            FileType::RegularFile => EntryKind::File {
                content,
                sparse: false,
            },
            FileType::Directory => EntryKind::Directory { content },
            FileType::Symlink => EntryKind::Symlink {
                target: rustix::fs::readlinkat(&self.fd, name, Vec::with_capacity(256))
                    .map_err(|e| self.error("read link", name, e))?
                    .into_bytes(),
            },
            FileType::BlockDevice => EntryKind::BlockDevice { device: rdev },
            FileType::CharacterDevice => EntryKind::CharDevice { device: rdev },
            FileType::Fifo => EntryKind::Fifo,
            FileType::Socket => EntryKind::Socket,
            FileType::Unknown => return Err(self.error("stat", name, Errno::NOTSUP)),
        };
        let entry = Entry {
            name: stored,
            kind,
            mode: mode & 0o7777,
            uid: stat.stx_uid,
            gid: stat.stx_gid,
            modified: timestamp(stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec),
            changed: timestamp(stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
            inode: stat.stx_ino,
            device,
            links: stat.stx_nlink.into(),
            xattrs: Vec::new(),
        };
        Ok(Captured {
            entry,
            len: stat.stx_size,
            allocated_bytes: stat.stx_blocks.saturating_mul(512),
        })
    }

    fn error(&self, operation: &'static str, name: &CStr, e: Errno) -> PathError {
        PathError::new(operation, self.path_of(name), e)
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Only the owner of a file (and root) may open it without changing its access time.
fn without_atime(
    flags: OFlags,
    open: impl Fn(OFlags) -> rustix::io::Result<OwnedFd>,
) -> rustix::io::Result<OwnedFd> {
    match open(flags | OFlags::NOATIME) {
        Err(Errno::PERM) => open(flags),
        opened => opened,
    }
}

fn timestamp(seconds: i64, nanos: u32) -> Timestamp {
    Timestamp { seconds, nanos }
}

#[cfg(test)]
mod tests;
