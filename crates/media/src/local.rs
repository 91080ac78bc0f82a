//! [`Disk`] over a directory of the local file system.
//!
//! Invariant: directories are made 0700 and files 0600; nothing outside the top is touched.

use crate::{
    Barrier, Disk, DiskEntry, DiskFile, DiskLock, MediaError, MediaErrorKind, ReadFrom, Room,
};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

mod ahead;
mod past_cache;
mod told;

use ahead::Ahead;
use past_cache::{Access, PastCache};

/// A directory tree under `top`.
pub struct LocalDisk {
    top: PathBuf,
}

impl LocalDisk {
    /// Over an existing directory or one still to be made with [`LocalDisk::create_top`].
    pub fn new(top: impl Into<PathBuf>) -> Self {
        Self { top: top.into() }
    }

    /// Makes the top directory, 0700, and its parents. What was made is durable: nothing below
    /// could be otherwise.
    pub fn create_top(&self) -> Result<(), MediaError> {
        let name = self.top.display().to_string();
        let missing: Vec<&Path> = self
            .top
            .ancestors()
            .take_while(|dir| !dir.as_os_str().is_empty() && !dir.is_dir())
            .collect();
        for dir in missing.into_iter().rev() {
            let made = fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(dir);
            io("create", &name, made)?;
            let above = match dir.parent() {
                Some(above) if !above.as_os_str().is_empty() => above,
                _ => Path::new("."),
            };
            io("sync", &name, File::open(above).and_then(|d| d.sync_all()))?;
        }
        Ok(())
    }

    /// Where the tree stands.
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// Only plain names stay below the top.
    fn path(&self, operation: &'static str, path: &str) -> Result<PathBuf, MediaError> {
        let plain = |name: &str| !matches!(name, "" | "." | "..");
        if !path.is_empty() && !path.split('/').all(plain) {
            let source = std::io::ErrorKind::InvalidInput.into();
            return Err(MediaError::from_io(operation, path, source));
        }
        Ok(self.top.join(path))
    }

    fn open_with(
        &self,
        operation: &'static str,
        path: &str,
        options: &OpenOptions,
    ) -> Result<File, MediaError> {
        io(operation, path, options.open(self.path(operation, path)?))
    }
}

fn io<T>(operation: &'static str, name: &str, r: std::io::Result<T>) -> Result<T, MediaError> {
    r.map_err(|e| MediaError::from_io(operation, name, e))
}

impl Disk for LocalDisk {
    fn open(&self, path: &str, create: bool) -> Result<Arc<dyn DiskFile>, MediaError> {
        let mut options = writing();
        let options = options.create(create).truncate(create);
        let file = self.open_with("open", path, options)?;
        Ok(LocalFile::shared(file, path))
    }

    fn create_new(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        let file = self.open_with("open", path, writing().create_new(true))?;
        Ok(LocalFile::shared(file, path))
    }

    fn open_read(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        let file = self.open_with("open", path, OpenOptions::new().read(true))?;
        Ok(LocalFile::shared(file, path))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), MediaError> {
        let (source, target) = (self.path("rename", from)?, self.path("rename", to)?);
        io("rename", to, fs::rename(source, target))
    }

    fn rename_new(&self, from: &str, to: &str) -> Result<(), MediaError> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        let (source, target) = (self.path("rename", from)?, self.path("rename", to)?);
        match renameat_with(CWD, &source, CWD, &target, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            // File systems without RENAME_NOREPLACE (NFS, some FUSE) still have link.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                io("link", to, fs::hard_link(&source, &target))?;
                // The new name stands: to say otherwise would deny a put that took place. The old
                // one is swept later, as after a crash here.
                let _ = fs::remove_file(&source);
                Ok(())
            }
            Err(e) => Err(MediaError::from_io("rename", to, e.into())),
        }
    }

    fn remove(&self, path: &str) -> Result<(), MediaError> {
        io("remove", path, fs::remove_file(self.path("remove", path)?))
    }

    fn list(&self, dir: &str) -> Result<Vec<DiskEntry>, MediaError> {
        let mut entries = Vec::new();
        for entry in io("list", dir, fs::read_dir(self.path("list", dir)?))? {
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
        match fs::DirBuilder::new()
            .mode(0o700)
            .create(self.path("create", dir)?)
        {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(MediaError::from_io("create", dir, e)),
        }
    }

    fn sync_dir(&self, dir: &str, _point: Barrier) -> Result<(), MediaError> {
        let handle = io("sync", dir, File::open(self.path("sync", dir)?))?;
        io("sync", dir, handle.sync_all())
    }

    fn room(&self) -> Option<Room> {
        let found = rustix::fs::statvfs(&self.top).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        let used = found.f_blocks.saturating_sub(found.f_bfree);
        Some(Room {
            free_bytes: bytes(found.f_bavail),
            // What is kept for root is nobody else's.
            total_bytes: bytes(used.saturating_add(found.f_bavail)),
        })
    }

    fn lock(&self, path: &str) -> Result<DiskLock, MediaError> {
        let mut options = writing();
        let file = self.open_with("lock", path, options.create(true).truncate(false))?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(file)),
            Err(fs::TryLockError::WouldBlock) => {
                Err(MediaError::plain(MediaErrorKind::Locked, "lock", path))
            }
            Err(fs::TryLockError::Error(e)) => Err(MediaError::from_io("lock", path, e)),
        }
    }
}

/// Files are made 0600.
fn writing() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

struct LocalFile {
    file: File,
    name: String,
    /// The same file, of which the system reads ahead what it is told; `None` where that cannot be.
    ahead: OnceLock<Option<Ahead>>,
    /// The same file, read past the page cache; `None` where that cannot be.
    past_cache: OnceLock<Option<PastCache>>,
    /// ... written.
    to_past_cache: OnceLock<Option<PastCache>>,
}

impl LocalFile {
    fn shared(file: File, name: &str) -> Arc<dyn DiskFile> {
        let name = name.to_owned();
        Arc::new(Self {
            file,
            name,
            ahead: OnceLock::new(),
            past_cache: OnceLock::new(),
            to_past_cache: OnceLock::new(),
        })
    }
}

impl LocalFile {
    /// False if `into` could not be filled this way.
    fn reads_past_cache(&self, offset: u64, into: &mut [u8]) -> bool {
        let open = || PastCache::open(&self.file, Access::Read);
        let opened = self.past_cache.get_or_init(open);
        opened
            .as_ref()
            .is_some_and(|file| file.read_at(offset, into))
    }
}

impl DiskFile for LocalFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        io("read", &self.name, self.file.read_exact_at(into, offset))
    }

    fn read_at_past_cache(&self, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        if self.reads_past_cache(offset, into) {
            return Ok(());
        }
        // Whatever is wrong, the usual way says it; from the device, if the system lets go of its copy.
        told::let_go(&self.file, offset, into.len());
        self.read_at(offset, into)
    }

    fn read_at_told(
        &self,
        offset: u64,
        into: &mut [u8],
        past_cache: bool,
    ) -> Result<ReadFrom, MediaError> {
        if past_cache {
            if self.reads_past_cache(offset, into) {
                return Ok(ReadFrom::Device);
            }
            told::let_go(&self.file, offset, into.len());
        }
        let opened = self.ahead.get_or_init(|| Ahead::open(&self.file));
        let file = opened.as_ref().map_or(&self.file, Ahead::file);
        io("read", &self.name, told::read_exact_at(file, offset, into))
    }

    fn read_at_ahead(
        &self,
        offset: u64,
        into: &mut [u8],
        ahead_bytes: u64,
    ) -> Result<(), MediaError> {
        let opened = self.ahead.get_or_init(|| Ahead::open(&self.file));
        let read = opened
            .as_ref()
            .map(|file| file.read_at(offset, into, ahead_bytes));
        match read {
            Some(read) => io("read", &self.name, read),
            None => self.read_at(offset, into),
        }
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        io("write", &self.name, self.file.write_all_at(data, offset))
    }

    fn write_at_past_cache(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        let open = || PastCache::open(&self.file, Access::Write);
        let opened = self.to_past_cache.get_or_init(open);
        let written = opened
            .as_ref()
            .map_or(0, |file| file.write_at(offset, data));
        match data.get(written..) {
            None | Some([]) => Ok(()),
            // The end, or whatever is wrong.
            Some(rest) => self.write_at(offset.saturating_add(written as u64), rest),
        }
    }

    fn len(&self) -> Result<u64, MediaError> {
        Ok(io("stat", &self.name, self.file.metadata())?.len())
    }

    fn set_len(&self, len: u64) -> Result<(), MediaError> {
        io("truncate", &self.name, self.file.set_len(len))
    }

    fn sync(&self, _point: Barrier) -> Result<(), MediaError> {
        // Bytes and length, as promised, and not the time of the last change: where nothing is
        // allocated anew, as in the journal, that spares the file system a commit of its own.
        io("sync", &self.name, self.file.sync_data())
    }
}
