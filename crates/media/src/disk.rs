//! Files in a directory tree: the shape that the kernel gives, with every sync named.

use crate::{Barrier, MediaError};
use std::any::Any;
use std::sync::Arc;

/// One entry of [`Disk::list`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskEntry {
    /// Name without the directory.
    pub name: String,
    /// A directory, not a file.
    pub is_dir: bool,
}

/// What the place of a [`Disk`] has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes that may still be written.
    pub free_bytes: u64,
    /// Bytes that there are in all, of those that this process may use.
    pub total_bytes: u64,
}

/// Held while it lives; the system releases it when the process dies.
pub type DiskLock = Box<dyn Any + Send + Sync>;

/// A directory tree on a local disk. Paths are relative, `/`-separated; `""` is the top. A path
/// that is absolute or has an empty, `.` or `..` component is refused.
///
/// Contract: what was not synced may be lost, torn at 512 bytes or reordered by a crash, names
/// included: a created, renamed or removed name is durable after `sync_dir` of its directory, a
/// file's bytes after `DiskFile::sync`; neither covers the other. After a rename between
/// directories the new name is durable after `sync_dir` of the target's; the old name may come
/// back, for the same file, until `sync_dir` of the source's. The simulator (`sim`, module
/// `crash`) spells out what a crash may do.
pub trait Disk: Send + Sync {
    /// Opens for reading and writing; with `create`, makes an empty file when there is none and
    /// truncates one that exists.
    fn open(&self, path: &str, create: bool) -> Result<Arc<dyn DiskFile>, MediaError>;

    /// Makes a file that is new, atomically, and opens it for reading and writing: `Exists` when
    /// the name is taken.
    fn create_new(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError>;

    /// Opens for reading only.
    fn open_read(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError>;

    /// Moves a file over whatever has the new name.
    fn rename(&self, from: &str, to: &str) -> Result<(), MediaError>;

    /// Moves a file to a name that must be free, atomically: `Exists` otherwise.
    fn rename_new(&self, from: &str, to: &str) -> Result<(), MediaError>;

    /// Removes a file.
    fn remove(&self, path: &str) -> Result<(), MediaError>;

    /// Entries of a directory, sorted by name.
    fn list(&self, dir: &str) -> Result<Vec<DiskEntry>, MediaError>;

    /// Makes one directory (mode 0700); its parent exists. True when it was not there before.
    fn make_dir(&self, dir: &str) -> Result<bool, MediaError>;

    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &str, point: Barrier) -> Result<(), MediaError>;

    /// Takes the lock file exclusively without waiting: `Locked` when a live process has it.
    fn lock(&self, path: &str) -> Result<DiskLock, MediaError>;

    /// Whether writes of this thread wait for their turns, which the thread itself has or gets: nobody
    /// else may write for it then.
    fn is_paced(&self) -> bool {
        false
    }

    /// How much room there is, whoever else takes of it; cheap. `None`: nobody knows.
    fn room(&self) -> Option<Room> {
        None
    }
}

/// Where the bytes of a read were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// On the device: what it gives now.
    Device,
    /// In the system's page cache, in part at least; or nobody knows.
    Cache,
}

/// An open file.
#[allow(clippy::len_without_is_empty)]
pub trait DiskFile: Send + Sync {
    /// Fills `into` from `offset`; `Io` at the end of the file.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), MediaError>;

    /// The same without leaving a copy in the system's page cache, where that is possible: for who
    /// has a cache of his own.
    fn read_at_past_cache(&self, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        self.read_at(offset, into)
    }

    /// Reads like the one (`past_cache`) or the other, and says whether the device gave all of it: who
    /// counts something as verified has to know. May take one more system call.
    fn read_at_told(
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

    /// The same, and of what lies behind it the system reads `ahead_bytes` and no more, where that is
    /// possible: for who has a turn at the device for so many. Left to itself it reads as far ahead as it likes.
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

    /// The same, and the device has the bytes on return, where that is possible, so that a sync finds
    /// little to write. Durable they are after that sync.
    fn write_at_past_cache(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        self.write_at(offset, data)
    }

    /// Length in bytes.
    fn len(&self) -> Result<u64, MediaError>;

    /// Cuts or grows with zeroes.
    fn set_len(&self, len: u64) -> Result<(), MediaError>;

    /// Cuts it to `len`, and the disk has the room on return, where that is possible.
    fn give_back(&self, len: u64) -> Result<(), MediaError> {
        self.set_len(len)
    }

    /// Says of an empty file that its bytes will be overwritten again and again: a file system that
    /// writes them elsewhere each time, and needs room for that, should not. Where it cannot, nothing is lost.
    fn will_be_overwritten(&self) {}

    /// Grows it to `len`, and the disk has the room for that from then on, whatever is written
    /// there later. `NoSpace` may leave it longer than it was.
    fn allocate(&self, len: u64) -> Result<(), MediaError> {
        fill(self, len)
    }

    /// The disk has room for the first `len` bytes from then on, and the file is as long as before:
    /// `NoSpace` if it has not. False where the system cannot promise that.
    fn claim(&self, _len: u64) -> Result<bool, MediaError> {
        Ok(false)
    }

    /// Returns when bytes and length survive power loss.
    fn sync(&self, point: Barrier) -> Result<(), MediaError>;
}

/// Fills a file from its end up to `len` with bytes that no file system shrinks: for those that
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
        file.write_at(at, piece.get(..bytes).unwrap_or_default())?;
        at += bytes as u64;
    }
    Ok(())
}
