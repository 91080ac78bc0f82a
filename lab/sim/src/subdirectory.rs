//! A disk in a directory of another one: two devices that lose power at the same moment. Histories
//! of journals on a fast device use it.
//!
//! Invariant: it sees nothing outside of its directory.

use media::{Barrier, Disk, DiskEntry, DiskFile, DiskLayer, DiskLock, MediaError};
use std::sync::Arc;

/// See the module's head.
pub struct Subdirectory {
    below: Arc<dyn Disk>,
    directory: String,
}

impl Subdirectory {
    /// The directory must exist.
    pub fn new(below: Arc<dyn Disk>, directory: &str) -> Self {
        let directory = directory.to_owned();
        Self { below, directory }
    }

    fn path(&self, path: &str) -> String {
        match path {
            "" => self.directory.clone(),
            _ => format!("{}/{path}", self.directory),
        }
    }
}

impl DiskLayer for Subdirectory {
    fn below(&self) -> &dyn Disk {
        &*self.below
    }

    fn open(&self, path: &str, create: bool) -> Result<Arc<dyn DiskFile>, MediaError> {
        self.below.open(&self.path(path), create)
    }

    fn create_new(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        self.below.create_new(&self.path(path))
    }

    fn open_read(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        self.below.open_read(&self.path(path))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), MediaError> {
        self.below.rename(&self.path(from), &self.path(to))
    }

    fn rename_new(&self, from: &str, to: &str) -> Result<(), MediaError> {
        self.below.rename_new(&self.path(from), &self.path(to))
    }

    fn remove(&self, path: &str) -> Result<(), MediaError> {
        self.below.remove(&self.path(path))
    }

    fn list(&self, dir: &str) -> Result<Vec<DiskEntry>, MediaError> {
        self.below.list(&self.path(dir))
    }

    fn make_dir(&self, dir: &str) -> Result<bool, MediaError> {
        self.below.make_dir(&self.path(dir))
    }

    fn sync_dir(&self, dir: &str, point: Barrier) -> Result<(), MediaError> {
        self.below.sync_dir(&self.path(dir), point)
    }

    fn lock(&self, path: &str) -> Result<DiskLock, MediaError> {
        self.below.lock(&self.path(path))
    }
}
