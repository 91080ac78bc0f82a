//! Media that break one promise each: canaries for the suites. The conformance tests use them.
//!
//! Invariant: a liar without a lie passes.

use media::{Barrier, Blobs, Disk, DiskEntry, DiskFile, DiskLock, MediaError, MediaErrorKind, Put};
use std::sync::Arc;

/// A promise of `Disk` to break.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lie {
    None,
    /// `rename_new` replaces.
    RenameReplaces,
    /// A read past the end returns zeroes.
    ReadsPastTheEnd,
    /// `list` is in the wrong order.
    ListUnsorted,
    /// The lock is given to every caller.
    LockShared,
    /// `open` with create keeps the old bytes.
    CreateKeeps,
    /// `create_new` opens an existing file.
    CreateNewOpens,
    /// `make_dir` always reports a new directory.
    MakeDirNew,
    /// Growing shows bytes other than zeroes.
    GrowsDirty,
    /// `remove` of a missing name succeeds.
    RemoveSilent,
    /// Names may leave the top.
    PathsEscape,
    /// A sync of a missing directory succeeds.
    SyncsNothing,
    /// `rename` keeps the old name.
    RenameCopies,
    /// Opening for reading allows writes.
    ReadersWrite,
    /// A write's last byte is lost.
    WritesShort,
    /// The last byte of a direct write is lost.
    WritesShortPastCache,
}

impl Lie {
    pub const ALL: [Self; 15] = [
        Self::RenameReplaces,
        Self::ReadsPastTheEnd,
        Self::ListUnsorted,
        Self::LockShared,
        Self::CreateKeeps,
        Self::CreateNewOpens,
        Self::MakeDirNew,
        Self::GrowsDirty,
        Self::RemoveSilent,
        Self::PathsEscape,
        Self::SyncsNothing,
        Self::RenameCopies,
        Self::ReadersWrite,
        Self::WritesShort,
        Self::WritesShortPastCache,
    ];
}

/// A disk that breaks one promise.
pub struct Liar(Arc<dyn Disk>, Lie);

impl Liar {
    pub fn over(disk: Arc<dyn Disk>, lie: Lie) -> Arc<dyn Disk> {
        Arc::new(Self(disk, lie))
    }

    fn lies(&self, lie: Lie) -> bool {
        self.1 == lie
    }

    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(LyingFile(file, self.1))
    }

    fn path(&self, path: &str) -> String {
        if !self.lies(Lie::PathsEscape) {
            return path.to_owned();
        }
        path.split('/')
            .filter(|name| !matches!(*name, "" | "." | ".."))
            .collect::<Vec<_>>()
            .join("/")
    }
}

impl Disk for Liar {
    fn open(&self, path: &str, create: bool) -> Result<Arc<dyn DiskFile>, MediaError> {
        let keeps = self.lies(Lie::CreateKeeps) && self.0.open_read(path).is_ok();
        let file = self.0.open(&self.path(path), create && !keeps)?;
        Ok(self.file(file))
    }

    fn create_new(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        let opens = self.lies(Lie::CreateNewOpens) && self.0.open_read(path).is_ok();
        let file = if opens {
            self.0.open(path, false)?
        } else {
            self.0.create_new(path)?
        };
        Ok(self.file(file))
    }

    fn open_read(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        let writes = self.lies(Lie::ReadersWrite);
        let file = if writes {
            self.0.open(path, false)?
        } else {
            self.0.open_read(path)?
        };
        Ok(self.file(file))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), MediaError> {
        self.0.rename(from, to)?;
        if self.lies(Lie::RenameCopies) {
            self.0.open(from, true)?;
        }
        Ok(())
    }

    fn rename_new(&self, from: &str, to: &str) -> Result<(), MediaError> {
        if self.lies(Lie::RenameReplaces) {
            return self.0.rename(from, to);
        }
        self.0.rename_new(from, to)
    }

    fn remove(&self, path: &str) -> Result<(), MediaError> {
        let removed = self.0.remove(path);
        if self.lies(Lie::RemoveSilent) {
            Ok(())
        } else {
            removed
        }
    }

    fn list(&self, dir: &str) -> Result<Vec<DiskEntry>, MediaError> {
        let mut entries = self.0.list(dir)?;
        if self.lies(Lie::ListUnsorted) {
            entries.reverse();
        }
        Ok(entries)
    }

    fn make_dir(&self, dir: &str) -> Result<bool, MediaError> {
        Ok(self.0.make_dir(dir)? || self.lies(Lie::MakeDirNew))
    }

    fn sync_dir(&self, dir: &str, point: Barrier) -> Result<(), MediaError> {
        let synced = self.0.sync_dir(dir, point);
        if self.lies(Lie::SyncsNothing) {
            Ok(())
        } else {
            synced
        }
    }

    fn lock(&self, path: &str) -> Result<DiskLock, MediaError> {
        if self.lies(Lie::LockShared) {
            Ok(Box::new(()))
        } else {
            self.0.lock(path)
        }
    }
}

struct LyingFile(Arc<dyn DiskFile>, Lie);

impl DiskFile for LyingFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        let read = self.0.read_at(offset, into);
        if self.1 == Lie::ReadsPastTheEnd {
            Ok(())
        } else {
            read
        }
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        match data {
            [most @ .., _] if self.1 == Lie::WritesShort => self.0.write_at(offset, most),
            _ => self.0.write_at(offset, data),
        }
    }

    fn write_at_past_cache(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        match data {
            [most @ .., _] if self.1 == Lie::WritesShortPastCache => {
                self.0.write_at_past_cache(offset, most)
            }
            _ => self.0.write_at_past_cache(offset, data),
        }
    }

    fn len(&self) -> Result<u64, MediaError> {
        self.0.len()
    }

    fn set_len(&self, len: u64) -> Result<(), MediaError> {
        let old = self.0.len()?;
        self.0.set_len(len)?;
        if self.1 == Lie::GrowsDirty && len > old {
            self.0.write_at(len - 1, &[1])?;
        }
        Ok(())
    }

    fn sync(&self, point: Barrier) -> Result<(), MediaError> {
        self.0.sync(point)
    }
}

/// A promise of `Blobs` to break.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlobLie {
    None,
    /// Put if absent replaces.
    AlwaysPuts,
    /// Put if absent reports that the name was free.
    NeverRefuses,
    /// The barrier does not wait.
    NoBarrier,
    /// Sweeping removes a blob.
    SweepsTooMuch,
    /// Deleting does nothing.
    Keeps,
    /// The limit of a read is ignored.
    NoLimit,
    /// Listing a missing directory is an error.
    ListFails,
}

impl BlobLie {
    pub const ALL: [Self; 7] = [
        Self::AlwaysPuts,
        Self::NeverRefuses,
        Self::NoBarrier,
        Self::SweepsTooMuch,
        Self::Keeps,
        Self::NoLimit,
        Self::ListFails,
    ];
}

/// Blobs that break one promise.
pub struct LyingBlobs(pub Box<dyn Blobs>, pub BlobLie);

impl Blobs for LyingBlobs {
    fn put(&self, name: &str, bytes: Vec<u8>, how: Put) -> Result<(), MediaError> {
        match (self.1, self.0.put(name, bytes.clone(), how)) {
            (BlobLie::AlwaysPuts, Err(_)) => self.0.put(name, bytes, Put::Replace),
            (BlobLie::NeverRefuses, _) => Ok(()),
            (_, result) => result,
        }
    }

    fn read_range(&self, name: &str, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        self.0.read_range(name, offset, into)
    }

    fn len(&self, name: &str) -> Result<u64, MediaError> {
        self.0.len(name)
    }

    fn read(&self, name: &str, limit: u64) -> Result<Vec<u8>, MediaError> {
        let limit = if self.1 == BlobLie::NoLimit {
            u64::MAX
        } else {
            limit
        };
        self.0.read(name, limit)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, MediaError> {
        let names = self.0.list(prefix)?;
        if self.1 == BlobLie::ListFails && names.is_empty() {
            return Err(MediaError::plain(MediaErrorKind::NotFound, "list", prefix));
        }
        Ok(names)
    }

    fn delete(&self, name: &str) -> Result<(), MediaError> {
        if self.1 == BlobLie::Keeps {
            Ok(())
        } else {
            self.0.delete(name)
        }
    }

    fn sweep(&self) -> Result<(), MediaError> {
        if self.1 == BlobLie::SweepsTooMuch {
            self.0.delete("dir/a")?;
        }
        self.0.sweep()
    }

    fn adopt(&self, name: &str) {
        self.0.adopt(name);
    }

    fn barrier(&self, point: Barrier) -> Result<(), MediaError> {
        if self.1 == BlobLie::NoBarrier {
            Ok(())
        } else {
            self.0.barrier(point)
        }
    }
}
