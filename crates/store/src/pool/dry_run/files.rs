//! Files of a dry run: writes are visible only to its own readers. `Pool::dry_run` creates it.
//!
//! Invariant: the files below are only read.

use super::blobs::DryRunBlobs;
use super::pages::Pages;
use media::{Barrier, Disk, DiskEntry, DiskFile, DiskLock, MediaError, MediaErrorKind};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// See the module's head.
pub(super) struct DryRunDisk {
    below: Arc<dyn Disk>,
    /// Blobs of the same dry run.
    blobs: Arc<DryRunBlobs>,
    /// Changed files; `None`: removed.
    changed: Mutex<BTreeMap<String, Option<Arc<File>>>>,
}

/// Replaces the pool's lock in a dry run: no other process can access its changes.
pub(super) struct DryRunLock(pub Arc<DryRunBlobs>);

struct File {
    path: String,
    below: Option<Arc<dyn DiskFile>>,
    pages: Mutex<Pages>,
}

impl DryRunDisk {
    pub fn new(below: Arc<dyn Disk>, blobs: Arc<DryRunBlobs>) -> Self {
        Self {
            below,
            blobs,
            changed: Mutex::default(),
        }
    }

    /// Returns the file with a private copy of its changes.
    fn file(&self, path: &str) -> Result<Arc<File>, MediaError> {
        if let Some(file) = self.changed.lock().get(path) {
            return file.clone().ok_or_else(|| missing("open", path));
        }
        let below = self.below.open_read(path)?;
        let pages = Mutex::new(Pages::over(below.len()?));
        let file = Arc::new(File {
            path: path.to_owned(),
            below: Some(below),
            pages,
        });
        self.changed
            .lock()
            .insert(path.to_owned(), Some(Arc::clone(&file)));
        Ok(file)
    }

    fn create(&self, path: &str) -> Arc<File> {
        let file = Arc::new(File {
            path: path.to_owned(),
            below: None,
            pages: Mutex::default(),
        });
        self.changed
            .lock()
            .insert(path.to_owned(), Some(Arc::clone(&file)));
        file
    }

    fn is_there(&self, path: &str) -> bool {
        match self.changed.lock().get(path) {
            Some(file) => file.is_some(),
            None => self.below.open_read(path).is_ok(),
        }
    }
}

fn missing(operation: &'static str, path: &str) -> MediaError {
    MediaError::plain(MediaErrorKind::NotFound, operation, path)
}

impl Disk for DryRunDisk {
    fn open(&self, path: &str, create: bool) -> Result<Arc<dyn DiskFile>, MediaError> {
        Ok(match create {
            true => self.create(path),
            false => self.file(path)?,
        })
    }

    fn create_new(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        match self.is_there(path) {
            true => Err(MediaError::plain(MediaErrorKind::Exists, "create", path)),
            false => Ok(self.create(path)),
        }
    }

    fn open_read(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        match self.changed.lock().get(path) {
            Some(Some(file)) => Ok(Arc::clone(file) as _),
            Some(None) => Err(missing("open", path)),
            None => self.below.open_read(path),
        }
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), MediaError> {
        let file = self.file(from)?;
        let mut changed = self.changed.lock();
        changed.insert(from.to_owned(), None);
        changed.insert(to.to_owned(), Some(file));
        Ok(())
    }

    fn rename_new(&self, from: &str, to: &str) -> Result<(), MediaError> {
        match self.is_there(to) {
            true => Err(MediaError::plain(MediaErrorKind::Exists, "rename", to)),
            false => self.rename(from, to),
        }
    }

    fn remove(&self, path: &str) -> Result<(), MediaError> {
        if !self.is_there(path) {
            return Err(missing("remove", path));
        }
        self.changed.lock().insert(path.to_owned(), None);
        Ok(())
    }

    fn list(&self, dir: &str) -> Result<Vec<DiskEntry>, MediaError> {
        let mut entries = self.below.list(dir)?;
        for (path, file) in &*self.changed.lock() {
            let Some((_, name)) = path.rsplit_once('/').filter(|(above, _)| *above == dir) else {
                continue;
            };
            let entry = DiskEntry {
                name: name.to_owned(),
                is_dir: false,
            };
            match (
                entries.binary_search_by(|e| e.name.as_str().cmp(name)),
                file,
            ) {
                (Ok(at), None) => drop(entries.remove(at)),
                (Err(at), Some(_)) => entries.insert(at, entry),
                _ => {}
            }
        }
        Ok(entries)
    }

    fn make_dir(&self, _: &str) -> Result<bool, MediaError> {
        Ok(false)
    }

    fn sync_dir(&self, _: &str, _: Barrier) -> Result<(), MediaError> {
        Ok(())
    }

    fn lock(&self, _: &str) -> Result<DiskLock, MediaError> {
        Ok(Box::new(DryRunLock(Arc::clone(&self.blobs))))
    }
}

impl File {
    fn read_below(&self, at: u64, into: &mut [u8]) -> Result<(), MediaError> {
        match &self.below {
            Some(below) => below.read_at(at, into),
            None => Err(missing("read", &self.path)),
        }
    }
}

impl DiskFile for File {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        let below = |at, into: &mut [u8]| self.read_below(at, into);
        match self.pages.lock().read(offset, into, &below)? {
            true => Ok(()),
            false => {
                let source = std::io::ErrorKind::UnexpectedEof.into();
                Err(MediaError::from_io("read", &self.path, source))
            }
        }
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        let below = |at, into: &mut [u8]| self.read_below(at, into);
        self.pages.lock().write(offset, data, &below)
    }

    fn len(&self) -> Result<u64, MediaError> {
        Ok(self.pages.lock().len())
    }

    fn set_len(&self, len: u64) -> Result<(), MediaError> {
        self.pages.lock().set_len(len);
        Ok(())
    }

    fn allocate(&self, len: u64) -> Result<(), MediaError> {
        let mut pages = self.pages.lock();
        let grown = pages.len().max(len);
        pages.set_len(grown);
        Ok(())
    }

    fn sync(&self, _: Barrier) -> Result<(), MediaError> {
        Ok(())
    }
}
