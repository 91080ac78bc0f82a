//! What is neither a regular file nor a directory, and further names of files.
//!
//! Invariant: whatever had the name before is there until the new one is complete.

use super::{PRIVATE_FILE, TargetDirectory};
use crate::filesystem::PathError;
use crate::filesystem::metadata::{self, Privileges, Reached, Shortfalls};
use format::tree::{Entry, EntryKind};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::AsFd;

impl TargetDirectory {
    /// Makes a symbolic link, device, pipe or socket with its metadata, in place of what is there.
    pub fn place(
        &self,
        name: &CStr,
        entry: &Entry,
        privileges: Privileges,
        shortfalls: &mut Shortfalls,
    ) -> Result<(), PathError> {
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
        let path = self.path_of(name);
        if file_type == FileType::Symlink {
            let to = Reached::Link(self.fd.as_fd(), made);
            metadata::apply(to, &self.path, &path, entry, privileges, shortfalls);
        } else {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let handle = rustix::fs::openat(&self.fd, made, flags, Mode::empty()).map_err(fail)?;
            let to = Reached::Handle(handle.as_fd());
            metadata::apply(to, &self.path, &path, entry, privileges, shortfalls);
        }
        match unfinished {
            Some(unfinished) => self.rename_over(&unfinished, name),
            None => Ok(()),
        }
    }

    /// Gives a file made earlier (`from_name` in `from`) one more name, in place of what is there.
    pub fn link(&self, name: &CStr, from: &Self, from_name: &CStr) -> Result<(), PathError> {
        let make =
            |to: &CStr| rustix::fs::linkat(&from.fd, from_name, &self.fd, to, AtFlags::empty());
        let fail = |e| self.error("make hard link", name, e);
        match make(name) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => {
                let (unfinished, ()) = self.with_free_name(make).map_err(fail)?;
                self.rename_over(&unfinished, name)?;
                // Renaming one name of a file over another one of it leaves both.
                let _ = rustix::fs::unlinkat(&self.fd, &unfinished, AtFlags::empty());
                Ok(())
            }
            Err(e) => Err(fail(e)),
        }
    }
}
