//! Defines the `Disk` interface: files in a directory tree, as the kernel offers them, with a name
//! for every sync. The store and `dir_blobs` call this.
//!
//! Invariant: only a sync makes anything durable; see [`Disk`].

use crate::{Barrier, MediaError};
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;
use units::Part;

/// One entry of [`Disk::list`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskEntry {
    /// Name without the directory.
    pub name: String,
    /// True for a directory, false for a file.
    pub is_dir: bool,
}

/// Space on the file system of a [`Disk`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Bytes that can still be written.
    pub free_bytes: u64,
    /// Total bytes that this process may use.
    pub total_bytes: u64,
    /// Inodes that can still be used.
    pub free_inodes: u64,
    /// All inodes; 0 if their number is not limited or not known.
    pub total_inodes: u64,
    /// The file system is mounted read-only.
    pub is_read_only: bool,
}

/// Lock that lasts as long as this value. The system releases it when the process dies.
pub type DiskLock = Box<dyn Any + Send + Sync>;

/// A directory tree on a local disk. Paths are relative, `/`-separated; `""` is the top. A path
/// that is absolute or has an empty, `.` or `..` component is refused.
///
/// Contract: a crash may lose, tear at 512 bytes or reorder anything that was not synced, names
/// included. A created, renamed or removed name is durable after `sync_dir` of its directory. A
/// file's bytes are durable after `DiskFile::sync`. Neither covers the other. After a rename
/// between directories the new name is durable after `sync_dir` of the target's directory. The old
/// name may come back, for the same file, until `sync_dir` of the source's directory. The simulator
/// (`sim`, module `crash`) spells out the possible effects of a crash.
pub trait Disk: Send + Sync {
    /// Opens for reading and writing. With `create`, creates a missing file and truncates an
    /// existing one.
    fn open(&self, path: &str, create: bool) -> Result<Arc<dyn DiskFile>, MediaError>;

    /// Atomically creates a new file and opens it for reading and writing. Fails with `Exists` when
    /// the name is taken.
    fn create_new(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError>;

    /// Opens for reading only.
    fn open_read(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError>;

    /// Moves a file and replaces any file that has the new name.
    fn rename(&self, from: &str, to: &str) -> Result<(), MediaError>;

    /// Atomically moves a file to a free name. Fails with `Exists` when the name is taken.
    fn rename_new(&self, from: &str, to: &str) -> Result<(), MediaError>;

    /// Removes a file.
    fn remove(&self, path: &str) -> Result<(), MediaError>;

    /// Entries of a directory, sorted by name.
    fn list(&self, dir: &str) -> Result<Vec<DiskEntry>, MediaError>;

    /// Makes one directory (mode 0700); its parent must exist. Returns true when it did not exist
    /// before.
    fn make_dir(&self, dir: &str) -> Result<bool, MediaError>;

    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &str, point: Barrier) -> Result<(), MediaError>;

    /// Takes the lock file exclusively without waiting. Fails with `Locked` when a live process
    /// holds it.
    fn lock(&self, path: &str) -> Result<DiskLock, MediaError>;

    /// Returns true if this thread's writes wait for I/O grants that the thread itself holds or
    /// gets. No other thread may then write for it.
    fn is_paced(&self) -> bool {
        false
    }

    /// Returns the available space, which others may take too; cheap. `None` if it is unknown.
    fn room(&self) -> Option<Room> {
        None
    }
}

/// Source of the bytes of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// The device: the bytes are what it returns now.
    Device,
    /// The system's page cache, at least in part; or unknown.
    Cache,
}

/// Result of a read with a limit.
pub enum TimedRead {
    /// All bytes are there.
    Done,
    /// The device has not answered in time. Dropping this waits until it does.
    Late(Box<dyn Send>),
    /// It failed, or cannot be done this way. This is left of the limit.
    Unable(Duration),
}

/// An open file.
#[allow(clippy::len_without_is_empty)]
pub trait DiskFile: Send + Sync {
    /// Fills `into` from `offset`. Fails with `Io` at the end of the file.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), MediaError>;

    /// Makes the device begin with a read that follows soon, through the system's page cache.
    /// Does not wait for the device. Returns false if nothing was begun: such a read would have to
    /// wait for something else first, or the system takes no such advice.
    fn announce_read(&self, _offset: u64, _len: u64) -> bool {
        false
    }

    /// Makes the device read a range into the system's page cache, where possible, up to the end of
    /// the file. Does not wait for the device. For later reads of parts of it.
    fn read_around(&self, _offset: u64, _len: u64) {}

    /// Reads without leaving a copy in the system's page cache, where possible. For callers that
    /// have their own cache.
    fn read_at_past_cache(&self, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        self.read_at(offset, into)
    }

    /// Does the same, but waits for the device no longer than `limit`, where possible. Reports no
    /// errors: the caller reads again without a limit, on a thread that may wait.
    fn read_at_past_cache_within(
        &self,
        _offset: u64,
        _into: &mut [u8],
        limit: Duration,
    ) -> TimedRead {
        TimedRead::Unable(limit)
    }

    /// Makes such reads possible. May wait for the device.
    fn prepare_reads_within(&self) {}

    /// Reads like one (`past_cache`) or the other, and reports whether the device gave all bytes. A
    /// caller that counts bytes as verified must know. May take one more system call.
    fn read_at_reported(
        &self,
        offset: u64,
        into: &mut [u8],
        past_cache: bool,
    ) -> Result<ReadFrom, MediaError> {
        match past_cache {
            true => self.read_at_past_cache(offset, into)?,
            false => self.read_at(offset, into)?,
        }
        Ok(ReadFrom::Cache)
    }

    /// Does the same, and limits the system's read-ahead behind the range to `ahead_bytes`, where
    /// possible.
    ///
    /// For callers with an I/O grant for that many bytes. By itself the system reads ahead as far
    /// as it likes.
    fn read_at_ahead(
        &self,
        offset: u64,
        into: &mut [u8],
        _ahead_bytes: u64,
    ) -> Result<(), MediaError> {
        self.read_at(offset, into)
    }

    /// Writes all of `data` at `offset`, growing the file.
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError>;

    /// Does the same, and the device has the bytes on return, where possible, so that a sync finds
    /// little to write. They are durable only after that sync.
    fn write_at_past_cache(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        self.write_at(offset, data)
    }

    /// Returns the length in bytes.
    fn len(&self) -> Result<u64, MediaError>;

    /// Cuts the file, or grows it with zeroes.
    fn set_len(&self, len: u64) -> Result<(), MediaError>;

    /// Cuts the file to `len`. The freed space is available on return, where possible.
    fn give_back(&self, len: u64) -> Result<(), MediaError> {
        self.set_len(len)
    }

    /// Declares that the bytes of an empty file will be overwritten again and again.
    ///
    /// A file system that writes them elsewhere each time, and needs space for that, should not.
    /// Where it cannot avoid that, nothing is lost.
    fn will_be_overwritten(&self) {}

    /// Grows the file to `len` and allocates the space for it, so that later writes there do not
    /// run out of space. `NoSpace` may leave it longer than it was.
    fn allocate(&self, len: u64) -> Result<(), MediaError> {
        fill(self, len)
    }

    /// Allocates space for the first `len` bytes without changing the file's length. Fails with
    /// `NoSpace` if there is too little. Returns false where the system cannot promise that.
    fn claim(&self, _len: u64) -> Result<bool, MediaError> {
        Ok(false)
    }

    /// Returns when bytes and length survive power loss.
    fn sync(&self, point: Barrier) -> Result<(), MediaError>;
}

/// Fills a file from its end up to `len` with bytes that no file system shrinks. For files that
/// cannot allocate.
pub(crate) fn fill<F: DiskFile + ?Sized>(file: &F, len: u64) -> Result<(), MediaError> {
    const PIECE_BYTES: usize = 256 << 10;
    let mut at = file.len()?;
    let mut state = at | 1;
    let mut piece = vec![0; PIECE_BYTES];
    while at < len {
        for word in piece.chunks_exact_mut(8) {
            // Xorshift (Marsaglia, 2003).
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        let bytes = usize::try_from(len - at).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
        file.write_at(at, piece.part(..bytes)?)?;
        at += bytes as u64;
    }
    Ok(())
}
