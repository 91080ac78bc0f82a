//! A regular file that is being restored. Workers of a restore use it.
//!
//! Invariant: until [`TargetFile::finish`] the name leads to the previous file (unless the file is
//! rewritten in place, or did not exist). A file dropped unfinished leaves nothing behind.

use super::PathError;
use super::apply::{Identity, PRIVATE_FILE, TargetDirectory};
use super::metadata::{self, Privileges, Reached, Shortfalls};
use super::overwrite::Placement;
use format::tree::Entry;
use rustix::fs::{AtFlags, FallocateFlags, FileType, Mode, OFlags, XattrFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

static ZEROES: [u8; 64 << 10] = [0; 64 << 10];

/// See the module's head. Many threads may write, in any order.
#[derive(Debug)]
pub struct TargetFile {
    directory: Arc<TargetDirectory>,
    name: CString,
    /// Its name until it is finished, if its own is taken.
    unfinished: Option<CString>,
    file: File,
    /// The file existed and is rewritten: ranges that are not written keep their bytes.
    rewritten: bool,
    finished: bool,
}

impl TargetDirectory {
    /// Creates a regular file. An existing file keeps the name until [`TargetFile::finish`].
    pub fn create_file(
        self: &Arc<Self>,
        name: &CStr,
        placement: Placement,
    ) -> Result<TargetFile, PathError> {
        let fail = |e| self.error("create", name, e);
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let new = flags | OFlags::CREATE | OFlags::EXCL;
        match rustix::fs::openat(self.as_fd(), name, new, PRIVATE_FILE) {
            Ok(fd) => {
                return Ok(TargetFile::fresh(
                    Arc::clone(self),
                    name.to_owned(),
                    None,
                    fd,
                ));
            }
            Err(Errno::EXIST) => {}
            Err(e) => return Err(fail(e)),
        }
        if placement == Placement::Rewrite {
            // Read-only, executing and special files are replaced instead.
            let opened =
                rustix::fs::openat(self.as_fd(), name, flags | OFlags::NONBLOCK, Mode::empty());
            if let Some(fd) = opened.ok().filter(is_regular) {
                return Ok(TargetFile::existing(Arc::clone(self), name.to_owned(), fd));
            }
        }
        let (unfinished, fd) = self
            .with_free_name(|name| rustix::fs::openat(self.as_fd(), name, new, PRIVATE_FILE))
            .map_err(fail)?;
        let name = name.to_owned();
        Ok(TargetFile::fresh(
            Arc::clone(self),
            name,
            Some(unfinished),
            fd,
        ))
    }
}

impl TargetFile {
    pub(super) fn fresh(
        directory: Arc<TargetDirectory>,
        name: CString,
        unfinished: Option<CString>,
        fd: OwnedFd,
    ) -> Self {
        Self {
            directory,
            name,
            unfinished,
            file: File::from(fd),
            rewritten: false,
            finished: false,
        }
    }

    pub(super) fn existing(directory: Arc<TargetDirectory>, name: CString, fd: OwnedFd) -> Self {
        let mut file = Self::fresh(directory, name, None, fd);
        file.rewritten = true;
        file
    }

    /// The final path.
    pub fn path(&self) -> PathBuf {
        self.directory.path_of(&self.name)
    }

    /// Returns true if it has old bytes: compare before writing, and call [`TargetFile::zero_at`]
    /// for its holes.
    pub fn is_rewritten(&self) -> bool {
        self.rewritten
    }

    /// Writes all of `data` at `offset`.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), PathError> {
        self.file
            .write_all_at(data, offset)
            .map_err(|e| self.error("write", e))
    }

    /// Fills `into` from `offset` with the present bytes of a rewritten file, as far as there are
    /// any.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, PathError> {
        let mut done = 0;
        while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.error("read", e)),
            }
        }
        Ok(done)
    }

    /// Makes a range read as zeroes, as a hole where the file system supports that. Does nothing in
    /// a new file, where unwritten ranges are holes.
    pub fn zero_at(&self, offset: u64, len: u64) -> Result<(), PathError> {
        if !self.rewritten || len == 0 {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if rustix::fs::fallocate(&self.file, flags, offset, len).is_ok() {
            return Ok(());
        }
        let mut done = 0;
        while done < len {
            let count = (len - done).min(ZEROES.len() as u64);
            let zeroes = ZEROES.split_at(count as usize).0;
            self.write_at(offset + done, zeroes)?;
            done += count;
        }
        Ok(())
    }

    /// Truncates the file to `len`, sets the metadata of `entry` and the name. Returns its
    /// identity.
    pub fn finish(
        mut self,
        entry: &Entry,
        len: u64,
        privileges: Privileges,
        shortfalls: &mut Shortfalls,
    ) -> Result<Identity, PathError> {
        let present = self.file.metadata().map_err(|e| self.error("stat", e))?;
        if present.len() != len {
            self.file
                .set_len(len)
                .map_err(|e| self.error("set length", e))?;
        }
        let to = Reached::Opened(self.file.as_fd());
        let path = self.path();
        metadata::apply(to, &path, entry, privileges, shortfalls);
        let identity = Identity::of(self.file.as_fd()).map_err(|e| self.error("stat", e.into()))?;
        self.finished = true;
        if let Some(unfinished) = self.unfinished.take() {
            self.directory.rename_over(&unfinished, &self.name)?;
        }
        Ok(identity)
    }

    /// Marks the file itself as incomplete: an attribute for programs and users.
    pub fn mark(&self, name: &CStr, value: &[u8]) -> Result<(), PathError> {
        let set = rustix::fs::fsetxattr(&self.file, name, value, XattrFlags::empty());
        set.map_err(|e| self.error("set attribute", e.into()))
    }

    fn error(&self, operation: &'static str, e: io::Error) -> PathError {
        PathError::new(operation, self.path(), e)
    }
}

impl Drop for TargetFile {
    fn drop(&mut self) {
        if self.finished || self.rewritten {
            return;
        }
        let name = self.unfinished.as_ref().unwrap_or(&self.name);
        // Best effort: the cause of the unfinished file is being reported already.
        let _ = rustix::fs::unlinkat(&self.directory, name, AtFlags::empty());
    }
}

fn is_regular(fd: &OwnedFd) -> bool {
    rustix::fs::fstat(fd)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
}
