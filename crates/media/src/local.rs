//! [`Disk`] over a directory of the local file system.
//!
//! Invariant: directories are made 0700 and files 0600; nothing outside the top is touched.

use crate::{Barrier, Disk, DiskEntry, DiskFile, DiskLock, MediaError, MediaErrorKind};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory tree under `top`.
pub struct LocalDisk {
    top: PathBuf,
}

impl LocalDisk {
    /// Over an existing directory or one still to be made with [`LocalDisk::create_top`].
    pub fn new(top: impl Into<PathBuf>) -> Self {
        Self { top: top.into() }
    }

    /// Makes the top directory, 0700, and its parents.
    pub fn create_top(&self) -> Result<(), MediaError> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.top)
            .map_err(|e| MediaError::from_io("create", &self.top.display().to_string(), e))
    }

    /// Where the tree stands.
    pub fn top(&self) -> &Path {
        &self.top
    }

    fn path(&self, path: &str) -> PathBuf {
        self.top.join(path)
    }
}

fn io<T>(operation: &'static str, name: &str, r: std::io::Result<T>) -> Result<T, MediaError> {
    r.map_err(|e| MediaError::from_io(operation, name, e))
}

impl Disk for LocalDisk {
    fn open(&self, path: &str, create: bool) -> Result<Arc<dyn DiskFile>, MediaError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(create)
            .truncate(create)
            .mode(0o600)
            .open(self.path(path));
        let file = io("open", path, file)?;
        Ok(Arc::new(LocalFile {
            file,
            name: path.to_owned(),
        }))
    }

    fn open_read(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        let file = io("open", path, File::open(self.path(path)))?;
        Ok(Arc::new(LocalFile {
            file,
            name: path.to_owned(),
        }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), MediaError> {
        io("rename", to, fs::rename(self.path(from), self.path(to)))
    }

    fn rename_new(&self, from: &str, to: &str) -> Result<(), MediaError> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        let (source, target) = (self.path(from), self.path(to));
        match renameat_with(CWD, &source, CWD, &target, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            // File systems without RENAME_NOREPLACE (NFS, some FUSE) still have link.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                io("link", to, fs::hard_link(&source, &target))?;
                io("unlink", from, fs::remove_file(&source))
            }
            Err(e) => Err(MediaError::from_io("rename", to, e.into())),
        }
    }

    fn remove(&self, path: &str) -> Result<(), MediaError> {
        io("remove", path, fs::remove_file(self.path(path)))
    }

    fn list(&self, dir: &str) -> Result<Vec<DiskEntry>, MediaError> {
        let mut entries = Vec::new();
        for entry in io("list", dir, fs::read_dir(self.path(dir)))? {
            let entry = io("list", dir, entry)?;
            let is_dir = io("list", dir, entry.file_type())?.is_dir();
            // Our own names are ASCII; others are not ours and are left alone.
            if let Ok(name) = entry.file_name().into_string() {
                entries.push(DiskEntry { name, is_dir });
            }
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn make_dir(&self, dir: &str) -> Result<bool, MediaError> {
        match fs::DirBuilder::new().mode(0o700).create(self.path(dir)) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(MediaError::from_io("create", dir, e)),
        }
    }

    fn sync_dir(&self, dir: &str, _point: Barrier) -> Result<(), MediaError> {
        let handle = io("sync", dir, File::open(self.path(dir)))?;
        io("sync", dir, handle.sync_all())
    }

    fn lock(&self, path: &str) -> Result<DiskLock, MediaError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.path(path));
        let file = io("lock", path, file)?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(file)),
            Err(fs::TryLockError::WouldBlock) => {
                Err(MediaError::plain(MediaErrorKind::Locked, "lock", path))
            }
            Err(fs::TryLockError::Error(e)) => Err(MediaError::from_io("lock", path, e)),
        }
    }
}

struct LocalFile {
    file: File,
    name: String,
}

impl DiskFile for LocalFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        io("read", &self.name, self.file.read_exact_at(into, offset))
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        io("write", &self.name, self.file.write_all_at(data, offset))
    }

    fn len(&self) -> Result<u64, MediaError> {
        Ok(io("stat", &self.name, self.file.metadata())?.len())
    }

    fn set_len(&self, len: u64) -> Result<(), MediaError> {
        io("truncate", &self.name, self.file.set_len(len))
    }

    fn sync(&self, _point: Barrier) -> Result<(), MediaError> {
        io("sync", &self.name, self.file.sync_all())
    }
}
