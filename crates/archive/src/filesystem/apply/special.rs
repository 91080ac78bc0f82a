//! Special files, symbolic links and hard links of the target. Restore calls this.
//!
//! Invariant: an existing file keeps its name until the new one is complete.

use super::{Identity, PRIVATE_FILE, TargetDirectory};
use crate::filesystem::PathError;
use crate::filesystem::metadata::{self, Privileges, Reached, Shortfalls};
use crate::filesystem::xattrs::handle_path;
use format::tree::{Entry, EntryKind};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

impl TargetDirectory {
    /// Creates a symbolic link, device, pipe or socket with its metadata, in place of an existing
    /// file. Returns its identity.
    pub fn place(
        &self,
        name: &CStr,
        entry: &Entry,
        privileges: Privileges,
        shortfalls: &mut Shortfalls,
    ) -> Result<Identity, PathError> {
        let (operation, file_type, device) = match &entry.kind {
            EntryKind::Symlink { .. } => ("make link", FileType::Symlink, 0),
            EntryKind::BlockDevice { device } => ("make device", FileType::BlockDevice, *device),
            EntryKind::CharDevice { device } => ("make device", FileType::CharacterDevice, *device),
            EntryKind::Fifo => ("make pipe", FileType::Fifo, 0),
            EntryKind::Socket => ("make socket", FileType::Socket, 0),
            EntryKind::File { .. } | EntryKind::Directory { .. } => {
                return Err(self.error("place", name, Errno::INVAL));
            }
        };
        let make = |name: &CStr| match &entry.kind {
            EntryKind::Symlink { target } => {
                rustix::fs::symlinkat(target.as_slice(), &self.fd, name)
            }
            _ => rustix::fs::mknodat(&self.fd, name, file_type, PRIVATE_FILE, device),
        };
        let fail = |e| self.error(operation, name, e);
        let unfinished = match make(name) {
            Ok(()) => None,
            Err(Errno::EXIST) => Some(self.with_free_name(make).map_err(fail)?.0),
            Err(e) => return Err(fail(e)),
        };
        let made = unfinished.as_deref().unwrap_or(name);
        let handle = self.handle_of(made).map_err(fail)?;
        let identity = expect_fresh(&handle, file_type, device).map_err(fail)?;
        let to = match file_type {
            FileType::Symlink => Reached::Link(handle.as_fd()),
            _ => Reached::Handle(handle.as_fd()),
        };
        metadata::apply(to, &self.path_of(name), entry, privileges, shortfalls);
        if let Some(unfinished) = unfinished {
            self.rename_over(&unfinished, name)?;
        }
        Ok(identity)
    }

    pub(super) fn handle_of(&self, name: &CStr) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.fd, name, flags, Mode::empty())
    }

    /// Adds a hard link to a file created earlier (`from_name` in `from`, which must still be
    /// `expected`), in place of an existing file.
    pub fn link(
        &self,
        name: &CStr,
        from: &Self,
        from_name: &CStr,
        expected: Identity,
    ) -> Result<(), PathError> {
        let fail = |e| self.error("make hard link", name, e);
        let handle = from.handle_of(from_name).map_err(fail)?;
        if Identity::of(handle.as_fd()).map_err(fail)? != expected {
            let why = io::Error::other(format!(
                "{} was replaced during the restore",
                from.path_of(from_name).display()
            ));
            return Err(PathError::new("make hard link", self.path_of(name), why));
        }
        let source = handle_path(handle.as_fd());
        let make = |to: &CStr| {
            let follow = AtFlags::SYMLINK_FOLLOW;
            rustix::fs::linkat(rustix::fs::CWD, &source, &self.fd, to, follow)
        };
        match make(name) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => {
                let (unfinished, ()) = self.with_free_name(make).map_err(fail)?;
                self.rename_over(&unfinished, name)?;
                // Renaming one name of a file over another name of it leaves both.
                let _ = rustix::fs::unlinkat(&self.fd, &unfinished, AtFlags::empty());
                Ok(())
            }
            Err(e) => Err(fail(e)),
        }
    }
}

/// Fails unless the handle is of the file that was just created. The owner of the directory may
/// have put another file in its place, whose ownership must not be given away.
fn expect_fresh(handle: &OwnedFd, made: FileType, device: u64) -> rustix::io::Result<Identity> {
    let stat = rustix::fs::statat(handle, c"", AtFlags::EMPTY_PATH)?;
    let is_device = matches!(made, FileType::BlockDevice | FileType::CharacterDevice);
    let is_it = FileType::from_raw_mode(stat.st_mode) == made
        && stat.st_uid == rustix::process::geteuid().as_raw()
        && stat.st_nlink == 1
        && (!is_device || stat.st_rdev == device);
    match is_it {
        true => Ok(Identity::of_stat(&stat)),
        false => Err(Errno::STALE),
    }
}
