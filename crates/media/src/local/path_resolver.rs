//! Resolves names below the top of a [`LocalDisk`](super::LocalDisk) from a handle of that
//! directory. Local files call this.
//!
//! Invariant: no symbolic link is followed and no name leads out of the top. Only a regular file or
//! a directory is opened, and only if it belongs to this user, to root, or to the owner of the top
//! or of its `containers`. A file with a second name (hard link) is never opened for writing.
//! Nothing is truncated before it was checked. Neither a FIFO nor a lease makes the caller wait for
//! ever.
//!
//! The owner of the top may be another user when root maintains that user's pool. That user can put
//! their own files there, and no one else's. Files and directories that root makes there belong to
//! that user, who could not lock or change them otherwise. An existing file is never given away.

use crate::MediaError;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode, ResolveFlags, Stat};
use rustix::fs::{Gid, Uid};
use rustix::io::Errno;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// A directory that every pool has.
const INNER: &str = "containers";

/// True if this kernel, or a filter in front of it, has no `openat2`.
static WITHOUT_OPENAT2: AtomicBool = AtomicBool::new(false);

/// Intended use of an opened file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// Number of times that a name is opened or else made, while another process removes and makes it.
const ATTEMPTS: usize = 16;

/// The top directory, which names are resolved from.
pub(super) struct PathResolver {
    path: PathBuf,
    top: OnceLock<Top>,
    /// Never uses `openat2`.
    walks: bool,
}

struct Top {
    handle: OwnedFd,
    /// Users whose files are accepted.
    owners: [u32; 4],
    /// Owner of new files and directories, if that is not this process's user: root's, in another
    /// user's pool.
    gives_to: Option<(Uid, Gid)>,
}

impl Top {
    /// Gives a file or directory that this process has just made to the owner of the top.
    fn give(&self, made: impl AsFd) -> rustix::io::Result<()> {
        let Some((uid, gid)) = self.gives_to else {
            return Ok(());
        };
        match rustix::fs::fchown(made, Some(uid), Some(gid)) {
            // File systems without owners, and file servers, decide for themselves.
            Err(Errno::PERM | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(()),
            given => given,
        }
    }
}

/// An open directory and a name in it.
pub(super) struct Named<'a> {
    top: &'a Top,
    /// `None` for the top.
    directory: Option<OwnedFd>,
    pub name: &'a str,
}

impl Named<'_> {
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_ref().unwrap_or(&self.top.handle).as_fd()
    }

    /// Gives a file that this process has just made to the owner of the top.
    pub fn give(&self, made: impl AsFd) -> std::io::Result<()> {
        Ok(self.top.give(made)?)
    }

    /// Gives the directory of this name, which this process has just made, to the owner of the top.
    pub fn give_directory(&self) -> std::io::Result<()> {
        if self.top.gives_to.is_none() {
            return Ok(());
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = rustix::fs::openat(self.directory(), self.name, flags, Mode::empty())?;
        // The owner may have put another directory of root here meanwhile. An empty one is no loss.
        let is_empty = rustix::fs::Dir::read_from(&made)?.flatten().count() <= 2;
        if rustix::fs::fstat(&made)?.st_uid == 0 && is_empty {
            self.top.give(&made)?;
        }
        Ok(())
    }
}

impl PathResolver {
    /// Resolves names in the directory `path`, which need not exist yet.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            top: OnceLock::new(),
            walks: false,
        }
    }

    /// Returns the path of the top directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the whole path of a name, for an error.
    pub fn shown(&self, path: &str) -> String {
        match path {
            "" => self.path.display().to_string(),
            path => self.path.join(path).display().to_string(),
        }
    }

    /// Returns the top's handle. It is opened once, so that renaming or replacing directories above
    /// it has no effect.
    pub fn top(&self) -> std::io::Result<BorrowedFd<'_>> {
        Ok(self.held()?.handle.as_fd())
    }

    fn held(&self) -> std::io::Result<&Top> {
        if let Some(top) = self.top.get() {
            return Ok(top);
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(&self.path, flags, Mode::empty())?;
        let found = rustix::fs::fstat(&handle)?;
        let owner = found.st_uid;
        // This identifies the owner if a service may only write to the top. Directories have no
        // hard links, so nobody can have put another user's directory here.
        let inner = rustix::fs::statat(&handle, INNER, AtFlags::SYMLINK_NOFOLLOW)
            .ok()
            .filter(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory)
            .map_or(owner, |found| found.st_uid);
        let owners = [rustix::process::geteuid().as_raw(), 0, owner, inner];
        let gives = owners[0] == 0 && owner != 0;
        let gives_to = gives.then(|| (Uid::from_raw(owner), Gid::from_raw(found.st_gid)));
        Ok(self.top.get_or_init(|| Top {
            handle,
            owners,
            gives_to,
        }))
    }

    /// Opens a regular file.
    pub fn file(
        &self,
        operation: &'static str,
        path: &str,
        access: Access,
        more: OFlags,
    ) -> Result<File, MediaError> {
        let rights = match access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::RDWR,
        };
        let flags = rights | more | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let (file, found) = self.opened(operation, path, flags)?;
        let refused = |why| MediaError::refused(operation, &self.shown(path), why);
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(refused("it is not a regular file"));
        }
        if access == Access::Write && found.st_nlink > 1 {
            let why = "it has another name (hard link), and that file would change too";
            return Err(refused(why));
        }
        Ok(file.into())
    }

    /// Opens a directory.
    pub fn directory(
        &self,
        operation: &'static str,
        path: &str,
        rights: OFlags,
    ) -> Result<OwnedFd, MediaError> {
        let flags = rights | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(self.opened(operation, path, flags)?.0)
    }

    /// Opens the directory of a name.
    pub fn named<'a>(
        &'a self,
        operation: &'static str,
        path: &'a str,
    ) -> Result<Named<'a>, MediaError> {
        self.is_plain(operation, path)?;
        let top = self.io(operation, path, self.held())?;
        let (directory, name) = match path.rsplit_once('/') {
            Some((above, name)) => (Some(self.directory(operation, above, OFlags::PATH)?), name),
            None => (None, path),
        };
        Ok(Named {
            top,
            directory,
            name,
        })
    }

    fn opened(
        &self,
        operation: &'static str,
        path: &str,
        flags: OFlags,
    ) -> Result<(OwnedFd, Stat), MediaError> {
        if !path.is_empty() {
            self.is_plain(operation, path)?;
        }
        let refused = |why: &str| MediaError::refused(operation, &self.shown(path), why);
        let top = self.io(operation, path, self.held())?;
        let opened = match self.open_or_make(top, path, flags) {
            Err(Errno::LOOP) => {
                let why = "it is a symbolic link, or lies behind one";
                return Err(refused(why));
            }
            Err(Errno::AGAIN) => {
                let why = "another program has a lease on it: try again";
                return Err(refused(why));
            }
            // This is a FIFO without a reader, a socket, or a device without a driver.
            Err(Errno::NXIO) => {
                return Err(refused("it is not a regular file"));
            }
            opened => self.io(operation, path, opened.map_err(Into::into))?,
        };
        let found = self.io(
            operation,
            path,
            rustix::fs::fstat(&opened).map_err(Into::into),
        )?;
        // A new file is ours, even if a file server gives us another user number.
        if !flags.contains(OFlags::EXCL) && !top.owners.contains(&found.st_uid) {
            let [us, _, owner, _] = top.owners;
            let why = format!(
                "it belongs to user {}; allowed are you (user {us}), root, and the owner of the pool's \
                 directory (user {owner})",
                found.st_uid
            );
            return Err(refused(&why));
        }
        Ok((opened, found))
    }

    /// Accepts only plain names, which stay below the top.
    fn is_plain(&self, operation: &'static str, path: &str) -> Result<(), MediaError> {
        let plain = |name: &str| !matches!(name, "" | "." | "..");
        if path.split('/').all(plain) {
            return Ok(());
        }
        self.io(
            operation,
            path,
            Err(std::io::ErrorKind::InvalidInput.into()),
        )
    }

    /// Names the whole path in an error.
    pub fn io<T>(
        &self,
        operation: &'static str,
        path: &str,
        r: std::io::Result<T>,
    ) -> Result<T, MediaError> {
        r.map_err(|e| MediaError::from_io(operation, &self.shown(path), e))
    }

    /// Opens a name. A file that this makes belongs to the owner of the top.
    fn open_or_make(&self, top: &Top, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let handle = top.handle.as_fd();
        if !flags.contains(OFlags::CREATE) || top.gives_to.is_none() {
            return self.open(handle, path, flags);
        }
        let mut opened = Err(Errno::EXIST);
        for _ in 0..ATTEMPTS {
            match self.open(handle, path, flags | OFlags::EXCL) {
                Err(Errno::EXIST) if !flags.contains(OFlags::EXCL) => {}
                made => {
                    let made = made?;
                    top.give(&made)?;
                    return Ok(made);
                }
            }
            opened = self.open(handle, path, flags - OFlags::CREATE);
            if opened.as_ref().err() != Some(&Errno::NOENT) {
                break;
            }
        }
        opened
    }

    fn open(&self, top: BorrowedFd<'_>, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let mode = match flags.contains(OFlags::CREATE) {
            true => Mode::RUSR | Mode::WUSR,
            false => Mode::empty(),
        };
        loop {
            let opened = match self.walks || WITHOUT_OPENAT2.load(Ordering::Relaxed) {
                true => walk(top, path, flags, mode),
                false => resolve(top, path, flags, mode),
            };
            if opened.as_ref().err() != Some(&Errno::INTR) {
                return opened;
            }
        }
    }
}

/// Lets the kernel resolve the whole path.
fn resolve(
    top: BorrowedFd<'_>,
    path: &str,
    flags: OFlags,
    mode: Mode,
) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(top, or_itself(path), flags, mode, resolve) {
        // The call is missing before Linux 5.6 and behind filters that do not know it.
        Err(e @ (Errno::NOSYS | Errno::PERM)) => {
            let walked = walk(top, path, flags, mode);
            if e == Errno::NOSYS || walked.is_ok() {
                WITHOUT_OPENAT2.store(true, Ordering::Relaxed);
            }
            walked
        }
        opened => opened,
    }
}

/// Resolves one component at a time. None may be a link.
fn walk(top: BorrowedFd<'_>, path: &str, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
    let (above, last) = path.rsplit_once('/').unwrap_or(("", path));
    let mut held: Option<OwnedFd> = None;
    let between = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    for part in above.split('/').filter(|part| !part.is_empty()) {
        let at = held.as_ref().map_or(top, AsFd::as_fd);
        held = Some(step(at, part, between, Mode::empty())?);
    }
    let at = held.as_ref().map_or(top, AsFd::as_fd);
    step(at, or_itself(last), flags, mode)
}

fn step(at: BorrowedFd<'_>, name: &str, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
    match rustix::fs::openat(at, name, flags | OFlags::NOFOLLOW, mode) {
        // The system returns this for a link where a directory is expected.
        Err(Errno::NOTDIR) if is_link(at, name) => Err(Errno::LOOP),
        opened => opened,
    }
}

fn is_link(at: BorrowedFd<'_>, name: &str) -> bool {
    let found = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW);
    found.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode as RawMode) == FileType::Symlink)
}

fn or_itself(path: &str) -> &str {
    if path.is_empty() { "." } else { path }
}

#[cfg(test)]
mod tests;
