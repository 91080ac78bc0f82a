//! A source file opened for reading. Backup and verification use it.
//!
//! Invariant: it is a regular file, even if its name was reused since it was listed.

use super::PathError;
use super::captured::Captured;
use super::data_map::{self, Segment};
use super::xattrs::{self, XattrHolder};
use format::tree::Timestamp;
use rustix::fs::{Advice, FileType, Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// See the module's head. Many threads may read.
#[derive(Debug)]
pub struct OpenFile {
    file: File,
    path: PathBuf,
    len: u64,
    /// A reflink that is read in its place, and the state of the file when it was made.
    frozen: Option<(File, FileStamp)>,
}

impl OpenFile {
    pub(super) fn new(fd: OwnedFd, path: PathBuf) -> Result<Self, PathError> {
        let stat = rustix::fs::fstat(&fd).map_err(|e| PathError::new("stat", &path, e))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            let why = io::Error::other("it is no longer a regular file");
            return Err(PathError::new("open", path, why));
        }
        let len = u64::try_from(stat.st_size).unwrap_or(0);
        let file = File::from(fd);
        Ok(Self {
            file,
            path,
            len,
            frozen: None,
        })
    }

    /// Makes a reflink without a name in `directory`, which is on the same file system, and reads
    /// from that from now on. Returns false, and changes nothing, if the file was written to each
    /// time.
    pub fn freeze(&mut self, directory: BorrowedFd<'_>) -> io::Result<bool> {
        const ATTEMPTS: usize = 3;
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        for _ in 0..ATTEMPTS {
            let before = FileStamp::of(&self.file)?;
            let reflink = rustix::fs::openat(directory, c".", flags, Mode::RUSR)?;
            rustix::fs::ioctl_ficlone(&reflink, &self.file)?;
            if FileStamp::of(&self.file)? == before {
                self.len = before.len;
                self.frozen = Some((File::from(reflink), before));
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if a reflink is read.
    pub fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// The path at which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file that is read, to ask about its pages.
    pub fn file(&self) -> &File {
        self.frozen
            .as_ref()
            .map_or(&self.file, |(reflink, _)| reflink)
    }

    /// Length when it was opened.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if it was empty when it was opened.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fills `into` from `offset`. Returns fewer bytes only at the end of the file.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, PathError> {
        let mut done = 0;
        while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.file().read_at(rest, offset + done as u64) {
                Ok(0) => break,
                Ok(count) => {
                    let asked = rest.len();
                    done += count;
                    // The kernel returns less only at the end, and the end is where it was.
                    if count < asked && offset + done as u64 == self.len {
                        break;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.failed("read", e)),
            }
        }
        Ok(done)
    }

    /// Returns a failure on this file.
    pub(crate) fn failed(
        &self,
        operation: &'static str,
        source: impl Into<io::Error>,
    ) -> PathError {
        PathError::new(operation, &self.path, source)
    }

    /// Data and holes up to the length at opening.
    pub fn data_map(&self) -> Result<Vec<Segment>, PathError> {
        data_map::of(self.file().as_fd(), self.len)
            .map_err(|e| PathError::new("find holes", &self.path, e))
    }

    /// Extended attributes, sorted by name; errors go to `unreadable`.
    pub fn xattrs(&self, unreadable: &mut Vec<PathError>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let holder = XattrHolder::opened(self.file.as_fd(), &self.path);
        xattrs::read_all(&holder, unreadable)
    }

    /// Tells the kernel not to read ahead. Best effort.
    pub fn expect_random(&self) {
        // Only a hint: with read-ahead, others wait longer.
        let _ = rustix::fs::fadvise(self.file(), 0, None, Advice::Random);
    }

    /// Returns true if the file was written since `captured` was taken, or between that and its
    /// reflink: the bytes read may mix old and new, or be newer than their metadata.
    pub fn changed_since(&self, captured: &Captured) -> Result<bool, PathError> {
        let expected = FileStamp {
            modified: captured.entry.modified,
            inode: captured.entry.inode,
            len: captured.len,
        };
        if let Some((_, then)) = &self.frozen {
            return Ok(*then != expected);
        }
        let now = FileStamp::of(&self.file).map_err(|e| PathError::new("stat", &self.path, e))?;
        Ok(now != expected)
    }
}

/// Metadata that change when a file is written.
#[derive(Debug, PartialEq, Eq)]
struct FileStamp {
    modified: Timestamp,
    inode: u64,
    len: u64,
}

impl FileStamp {
    fn of(file: &File) -> rustix::io::Result<Self> {
        let stat = rustix::fs::fstat(file)?;
        Ok(Self {
            modified: Timestamp {
                seconds: stat.st_mtime,
                nanos: u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
            },
            inode: stat.st_ino,
            len: u64::try_from(stat.st_size).unwrap_or(0),
        })
    }
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use crate::filesystem::capture::Directory;
    use std::io::Write;

    #[test]
    fn reads_to_the_end_that_a_file_has_now() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("file");
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(&[1; 1000]).unwrap();
        let opened = Directory::open(top.path()).unwrap();
        let opened = opened.open_file(c"file").unwrap();
        let mut into = [0; 3000];
        let mut read = |offset| opened.read_at(offset, &mut into).unwrap();
        assert_eq!((read(0), read(600), read(1000)), (1000, 400, 0));
        file.write_all(&[2; 500]).unwrap();
        assert_eq!((read(0), read(600), read(1000)), (1500, 900, 500));
        file.set_len(300).unwrap();
        assert_eq!((read(0), read(600)), (300, 0));
    }
}
