//! A disk that refuses changes below `cache/` from a given moment on.

use media::{Barrier, Disk, DiskFile, DiskLayer, MediaError};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

/// See the module's head.
#[derive(Clone)]
pub struct NoCache {
    disk: Arc<dyn Disk>,
    /// Number of changes below `cache/` that still succeed.
    left: Arc<AtomicI64>,
    why: io::ErrorKind,
}

impl NoCache {
    /// Wraps `disk`: `left` changes succeed, then each fails with `why`.
    pub fn new(disk: Arc<dyn Disk>, left: i64, why: io::ErrorKind) -> Self {
        let left = Arc::new(AtomicI64::new(left));
        Self { disk, left, why }
    }

    /// Lets `left` more changes succeed.
    pub fn allow(&self, left: i64) {
        self.left.store(left, SeqCst);
    }

    fn change(&self, path: &str) -> Result<(), MediaError> {
        if !path.starts_with("cache") || self.left.fetch_sub(1, SeqCst) > 0 {
            return Ok(());
        }
        Err(MediaError::from_io("change", path, self.why.into()))
    }
}

impl DiskLayer for NoCache {
    fn below(&self) -> &dyn Disk {
        &*self.disk
    }
    fn open(&self, path: &str, create: bool) -> Result<Arc<dyn DiskFile>, MediaError> {
        if create {
            self.change(path)?;
        }
        let (file, path) = (self.disk.open(path, create)?, path.to_owned());
        let of = self.clone();
        Ok(Arc::new(File { file, path, of }))
    }
    fn create_new(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        self.change(path)?;
        self.disk.create_new(path)
    }
    fn rename(&self, from: &str, to: &str) -> Result<(), MediaError> {
        self.change(to)?;
        self.disk.rename(from, to)
    }
    fn rename_new(&self, from: &str, to: &str) -> Result<(), MediaError> {
        self.change(to)?;
        self.disk.rename_new(from, to)
    }
    fn make_dir(&self, dir: &str) -> Result<bool, MediaError> {
        self.change(dir)?;
        self.disk.make_dir(dir)
    }
    fn sync_dir(&self, dir: &str, point: Barrier) -> Result<(), MediaError> {
        self.change(dir)?;
        self.disk.sync_dir(dir, point)
    }
}

struct File {
    file: Arc<dyn DiskFile>,
    path: String,
    of: NoCache,
}

impl DiskFile for File {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        self.file.read_at(offset, into)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        self.of.change(&self.path)?;
        self.file.write_at(offset, data)
    }
    fn len(&self) -> Result<u64, MediaError> {
        self.file.len()
    }
    fn set_len(&self, len: u64) -> Result<(), MediaError> {
        self.of.change(&self.path)?;
        self.file.set_len(len)
    }
    fn sync(&self, point: Barrier) -> Result<(), MediaError> {
        self.of.change(&self.path)?;
        self.file.sync(point)
    }
}
