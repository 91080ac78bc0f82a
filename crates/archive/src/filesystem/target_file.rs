//! A regular file being restored.
//!
//! Invariant: until [`TargetFile::finish`] the name leads to what was there before (unless the file
//! is rewritten in place, or was not there); a file that is dropped unfinished leaves nothing behind.

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

/// See the module's head. Writes may come from many threads, in any order.
#[derive(Debug)]
pub struct TargetFile {
    directory: Arc<TargetDirectory>,
    name: CString,
    /// The name it has until it is finished, when its own is taken.
    unfinished: Option<CString>,
    file: File,
    /// It was there before and is rewritten: what is not written keeps its bytes.
    rewritten: bool,
    finished: bool,
}

impl TargetDirectory {
    /// Starts a regular file. It has its name (or keeps what was there) until
    /// [`TargetFile::finish`].
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
            // Read-only, running and special files are replaced instead.
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

    /// Where it will be.
    pub fn path(&self) -> PathBuf {
        self.directory.path_of(&self.name)
    }

    /// It has bytes from before: compare before writing, and [`TargetFile::zero_at`] its holes.
    pub fn is_rewritten(&self) -> bool {
        self.rewritten
    }

    /// Writes all of `data` at `offset`.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), PathError> {
        self.file
            .write_all_at(data, offset)
            .map_err(|e| self.error("write", e))
    }

    /// Fills as much of `into` as there is from `offset`: what a rewritten file holds already.
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

    /// Makes a range read as zeroes that takes no space where the file system can do that. Costs
    /// nothing in a new file, where what is not written is a hole.
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
            let zeroes = ZEROES.get(..count as usize).unwrap_or_default();
            self.write_at(offset + done, zeroes)?;
            done += count;
        }
        Ok(())
    }

    /// Cuts the file to `len`, gives it the metadata of `entry` and its name. Says which file it is.
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

    /// Says in the file itself that it is not whole: an attribute for programs and people.
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
        // Best effort: the reason why it is unfinished is being reported already.
        let _ = rustix::fs::unlinkat(&self.directory, name, AtFlags::empty());
    }
}

fn is_regular(fd: &OwnedFd) -> bool {
    rustix::fs::fstat(fd)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
}
