//! Implements a disk that cannot read a part of one file, as with latent sector errors. Tests of
//! the store and of the journal use it.
//!
//! Invariant: writes and all other reads work.

use media::{Barrier, Disk, DiskFile, DiskLayer, MediaError};
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

impl DiskLayer for BadSectors {
    fn below(&self) -> &dyn Disk {
        &*self.disk
    }

    fn open(&self, path: &str, create: bool) -> Result<Arc<dyn DiskFile>, MediaError> {
        Ok(self.wrap(path, self.disk.open(path, create)?))
    }

    fn open_read(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        Ok(self.wrap(path, self.disk.open_read(path)?))
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
