//! A disk with files that it cannot read, as with latent sector errors.

use media::{Barrier, Disk, DiskEntry, DiskFile, DiskLock, MediaError};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Reads of these bytes of this file fail.
#[derive(Clone)]
pub struct BadSectors {
    disk: Arc<dyn Disk>,
    path: String,
    bad: Range<u64>,
}

impl BadSectors {
    /// Wraps `disk`.
    pub fn new(disk: Arc<dyn Disk>, path: &str, bad: Range<u64>) -> Self {
        let path = path.to_owned();
        Self { disk, path, bad }
    }

    fn wrap(&self, path: &str, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        if path != self.path {
            return file;
        }
        let place = self.clone();
        Arc::new(BadFile { file, place })
    }
}

impl Disk for BadSectors {
    fn open(&self, path: &str, create: bool) -> Result<Arc<dyn DiskFile>, MediaError> {
        Ok(self.wrap(path, self.disk.open(path, create)?))
    }
    fn create_new(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        self.disk.create_new(path)
    }
    fn open_read(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        Ok(self.wrap(path, self.disk.open_read(path)?))
    }
    fn rename(&self, from: &str, to: &str) -> Result<(), MediaError> {
        self.disk.rename(from, to)
    }
    fn rename_new(&self, from: &str, to: &str) -> Result<(), MediaError> {
        self.disk.rename_new(from, to)
    }
    fn remove(&self, path: &str) -> Result<(), MediaError> {
        self.disk.remove(path)
    }
    fn list(&self, dir: &str) -> Result<Vec<DiskEntry>, MediaError> {
        self.disk.list(dir)
    }
    fn make_dir(&self, dir: &str) -> Result<bool, MediaError> {
        self.disk.make_dir(dir)
    }
    fn sync_dir(&self, dir: &str, point: Barrier) -> Result<(), MediaError> {
        self.disk.sync_dir(dir, point)
    }
    fn lock(&self, path: &str) -> Result<DiskLock, MediaError> {
        self.disk.lock(path)
    }
}

struct BadFile {
    file: Arc<dyn DiskFile>,
    place: BadSectors,
}

impl DiskFile for BadFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        let end = offset + into.len() as u64;
        if offset < self.place.bad.end && self.place.bad.start < end {
            let why = io::Error::other("bad sector");
            return Err(MediaError::from_io("read", &self.place.path, why));
        }
        self.file.read_at(offset, into)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        self.file.write_at(offset, data)
    }
    fn len(&self) -> Result<u64, MediaError> {
        self.file.len()
    }
    fn set_len(&self, len: u64) -> Result<(), MediaError> {
        self.file.set_len(len)
    }
    fn sync(&self, point: Barrier) -> Result<(), MediaError> {
        self.file.sync(point)
    }
}
