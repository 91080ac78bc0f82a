//! Applies a tree to a target: directories, files, links and special files. Restore calls this.
//!
//! Invariant: everything is created and changed relative to an open directory, one name at a time
//! and without following links, so nothing outside the target is touched. A replaced file is old or
//! new, never half. Directories get their metadata after their contents.

mod remove;
mod special;

use super::metadata::{self, Privileges, Reached, Shortfalls};
use super::overwrite::{Existing, ExistingKind};
use super::through_link::{LinkPlace, open_through_link};
use super::{PathError, as_path, join};
use format::tree::{Entry, Timestamp};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, StatxFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// Other users have no access to unfinished directories.
const PRIVATE_DIRECTORY: Mode = Mode::RWXU;
pub(super) const PRIVATE_FILE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Device and inode of a file: they identify it even after its name was reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    pub(super) fn of(file: BorrowedFd<'_>) -> rustix::io::Result<Self> {
        let stat = rustix::fs::statat(file, c"", AtFlags::EMPTY_PATH)?;
        Ok(Self::of_stat(&stat))
    }

    fn of_stat(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
        }
    }
}

/// An open directory of the target. Files that are being written in it share it.
#[derive(Debug)]
pub struct TargetDirectory {
    fd: OwnedFd,
    path: Vec<u8>,
}

impl TargetDirectory {
    /// Opens the top of the target; creates it and its parents if necessary. Links on the path to
    /// it are the user's and are followed.
    pub fn create_top(path: &Path) -> Result<Arc<Self>, PathError> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|e| PathError::new("make directory", path, e))?;
        Self::open_at(path).map_err(|e| PathError::new("open directory", path, e))
    }

    /// Opens the top of the target; `None` if it does not exist.
    pub fn open_top(path: &Path) -> Result<Option<Arc<Self>>, PathError> {
        match Self::open_at(path) {
            Ok(top) => Ok(Some(top)),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(PathError::new("open directory", path, e)),
        }
    }

    fn open_at(path: &Path) -> rustix::io::Result<Arc<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())?;
        let path = path.as_os_str().as_encoded_bytes().to_vec();
        Ok(Arc::new(Self { fd, path }))
    }

    /// Opens a directory in this one; fails for a link.
    pub fn open_child(&self, name: &CStr) -> Result<Arc<Self>, PathError> {
        let fd = rustix::fs::openat(&self.fd, name, DIRECTORY, Mode::empty())
            .map_err(|e| self.error("open directory", name, e))?;
        let path = join(&self.path, name.to_bytes());
        Ok(Arc::new(Self { fd, path }))
    }

    /// Opens what the link `name` in this directory leads to. `top`: the top of the target;
    /// `beneath`: the path of this directory from there, with a leading `/`.
    pub fn open_through_link(
        &self,
        name: &CStr,
        top: &Self,
        beneath: &[u8],
    ) -> Result<Arc<Self>, PathError> {
        let path = join(&self.path, name.to_bytes());
        let fd = open_through_link(LinkPlace {
            top: top.fd.as_fd(),
            above: self.fd.as_fd(),
            beneath,
            name,
            shown: as_path(&path),
        })?;
        Ok(Arc::new(Self { fd, path }))
    }

    /// The path.
    pub fn path(&self) -> &Path {
        as_path(&self.path)
    }

    /// Returns the path of `name` in it.
    pub fn path_of(&self, name: &CStr) -> PathBuf {
        as_path(&join(&self.path, name.to_bytes())).to_owned()
    }

    /// Opens a directory some levels below (`a/b/c`), without following links or leaving this one.
    pub fn open_beneath(&self, relative: &CStr) -> Result<Arc<Self>, PathError> {
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let opened =
            match rustix::fs::openat2(&self.fd, relative, DIRECTORY, Mode::empty(), resolve) {
                // Kernels before 5.6, and sandboxes that do not know the call.
                Err(Errno::NOSYS | Errno::PERM) => self.walk_beneath(relative),
                opened => opened,
            };
        let fd = opened.map_err(|e| self.error("open directory", relative, e))?;
        let path = join(&self.path, relative.to_bytes());
        Ok(Arc::new(Self { fd, path }))
    }

    fn walk_beneath(&self, relative: &CStr) -> rustix::io::Result<OwnedFd> {
        let mut at: Option<OwnedFd> = None;
        let names = relative.to_bytes().split(|b| *b == b'/');
        for name in names.filter(|name| !name.is_empty() && *name != b".") {
            if name == b".." {
                return Err(Errno::XDEV);
            }
            let from = at.as_ref().map_or(self.fd.as_fd(), |fd| fd.as_fd());
            at = Some(rustix::fs::openat(from, name, DIRECTORY, Mode::empty())?);
        }
        match at {
            Some(fd) => Ok(fd),
            None => rustix::fs::openat(&self.fd, c".", DIRECTORY, Mode::empty()),
        }
    }

    /// Returns what exists under `name`; links are not followed.
    pub fn existing(&self, name: &CStr) -> Result<Option<Existing>, PathError> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        match rustix::fs::statx(&self.fd, name, flags, StatxFlags::BASIC_STATS) {
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(self.error("stat", name, e)),
            Ok(stat) => Ok(Some(Existing {
                kind: match FileType::from_raw_mode(stat.stx_mode.into()) {
                    FileType::RegularFile => ExistingKind::File,
                    FileType::Directory => ExistingKind::Directory,
                    FileType::Symlink => ExistingKind::Link,
                    _ => ExistingKind::Other,
                },
                len: stat.stx_size,
                modified: Timestamp {
                    seconds: stat.stx_mtime.tv_sec,
                    nanos: stat.stx_mtime.tv_nsec,
                },
            })),
        }
    }

    /// Creates a directory, or opens an existing one. With `replace_others` it removes a file in
    /// its place. Metadata come last: [`Self::finish`].
    pub fn make_directory(
        &self,
        name: &CStr,
        replace_others: bool,
    ) -> Result<Arc<Self>, PathError> {
        let fail = |e| self.error("make directory", name, e);
        match rustix::fs::mkdirat(&self.fd, name, PRIVATE_DIRECTORY) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(e) => return Err(fail(e)),
        }
        let opened = match rustix::fs::openat(&self.fd, name, DIRECTORY, Mode::empty()) {
            Err(Errno::NOTDIR | Errno::LOOP) if replace_others => {
                rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()).map_err(fail)?;
                rustix::fs::mkdirat(&self.fd, name, PRIVATE_DIRECTORY).map_err(fail)?;
                rustix::fs::openat(&self.fd, name, DIRECTORY, Mode::empty())
            }
            opened => opened,
        };
        let fd = opened.map_err(fail)?;
        let path = join(&self.path, name.to_bytes());
        let made = Self { fd, path };
        made.make_writable();
        Ok(Arc::new(made))
    }

    /// The owner may lack permission to write into an existing directory. Its mode is set again at
    /// the end.
    pub fn make_writable(&self) {
        if let Ok(stat) = rustix::fs::fstat(&self.fd) {
            let mode = Mode::from_raw_mode(stat.st_mode);
            if !mode.contains(Mode::RWXU) {
                // On failure, creating files in it fails too and is reported.
                let _ = rustix::fs::fchmod(&self.fd, mode | Mode::RWXU);
            }
        }
    }

    /// Sets owner, attributes, mode and times of this directory, after everything in it.
    pub fn finish(&self, entry: &Entry, privileges: Privileges, shortfalls: &mut Shortfalls) {
        let to = Reached::Opened(self.fd.as_fd());
        metadata::apply(to, self.path(), entry, privileges, shortfalls);
    }

    /// Renames a finished file over a file or an empty directory.
    pub(super) fn rename_over(&self, from: &CStr, to: &CStr) -> Result<(), PathError> {
        let rename = || rustix::fs::renameat(&self.fd, from, &self.fd, to);
        let renamed = match rename() {
            Err(Errno::ISDIR) => {
                rustix::fs::unlinkat(&self.fd, to, AtFlags::REMOVEDIR).and_then(|()| rename())
            }
            renamed => renamed,
        };
        renamed.map_err(|e| {
            let _ = rustix::fs::unlinkat(&self.fd, from, AtFlags::empty());
            self.error("replace", to, e)
        })
    }

    /// Calls `make` with unusual names until one is free.
    pub(super) fn with_free_name<T>(
        &self,
        make: impl Fn(&CStr) -> rustix::io::Result<T>,
    ) -> rustix::io::Result<(CString, T)> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let process = rustix::process::getpid().as_raw_nonzero();
        for _ in 0..1000 {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!(".quintet-unfinished-{process}-{number}");
            let name = CString::new(name).map_err(|_| Errno::INVAL)?;
            match make(&name) {
                Err(Errno::EXIST) => {}
                made => return made.map(|made| (name, made)),
            }
        }
        Err(Errno::EXIST)
    }

    pub(super) fn error(&self, operation: &'static str, name: &CStr, e: Errno) -> PathError {
        PathError::new(operation, self.path_of(name), e)
    }
}

impl AsFd for TargetDirectory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests;
