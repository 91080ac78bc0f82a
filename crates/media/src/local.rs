//! Implements [`Disk`] over a directory of the local file system. The program and tests make one.
//!
//! Invariant: directories are made 0700 and files 0600. Nothing outside the top directory is
//! touched, even if other users can change its contents: every name is resolved from an open handle
//! of the top ([`path_resolver`]).

use crate::{
    Barrier, Disk, DiskEntry, DiskFile, DiskLock, MediaError, MediaErrorKind, ReadFrom, Room,
    TimedRead,
};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, StatVfsMountFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::num::NonZeroU64;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

mod ahead;
mod aio;
mod announced;
mod owner_lock;
mod past_cache;
mod path_resolver;
mod reported;
mod resident;

use ahead::Ahead;
use announced::Announced;
use past_cache::PastCache;
use path_resolver::{Access, PathResolver};

/// A directory tree under `top`.
pub struct LocalDisk {
    path_resolver: PathResolver,
}

impl LocalDisk {
    /// Uses an existing directory, or one that [`LocalDisk::create_top`] will make.
    pub fn new(top: impl Into<PathBuf>) -> Self {
        Self {
            path_resolver: PathResolver::new(top.into()),
        }
    }

    /// Makes the top directory, 0700, and its parents. They are durable on return: nothing below
    /// could be durable otherwise.
    pub fn create_top(&self) -> Result<(), MediaError> {
        let top = self.path_resolver.path();
        let name = top.display().to_string();
        let missing: Vec<&Path> = top
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
            io(
                "sync",
                &name,
                File::open(above).and_then(|d| sync_directory(&d)),
            )?;
        }
        Ok(())
    }

    /// Returns the path of the top directory.
    pub fn top(&self) -> &Path {
        self.path_resolver.path()
    }

    /// Names the whole path in an error.
    fn io<T>(
        &self,
        operation: &'static str,
        path: &str,
        r: std::io::Result<T>,
    ) -> Result<T, MediaError> {
        self.path_resolver.io(operation, path, r)
    }

    fn sys<T>(
        &self,
        operation: &'static str,
        path: &str,
        r: rustix::io::Result<T>,
    ) -> Result<T, MediaError> {
        self.io(operation, path, r.map_err(Into::into))
    }

    fn shared(&self, file: File, path: &str) -> Arc<dyn DiskFile> {
        LocalFile::shared(file, self.path_resolver.shown(path))
    }
}

fn io<T>(operation: &'static str, name: &str, r: std::io::Result<T>) -> Result<T, MediaError> {
    r.map_err(|e| MediaError::from_io(operation, name, e))
}

impl Disk for LocalDisk {
    fn open(&self, path: &str, create: bool) -> Result<Arc<dyn DiskFile>, MediaError> {
        let more = match create {
            true => OFlags::CREATE,
            false => OFlags::empty(),
        };
        let file = self.path_resolver.file("open", path, Access::Write, more)?;
        // Do not truncate in the open call itself: it does not know yet what it has opened.
        if create {
            self.io("truncate", path, file.set_len(0))?;
        }
        Ok(self.shared(file, path))
    }

    fn create_new(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        let more = OFlags::CREATE | OFlags::EXCL;
        let file = self.path_resolver.file("open", path, Access::Write, more)?;
        Ok(self.shared(file, path))
    }

    fn open_read(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        let file = self
            .path_resolver
            .file("open", path, Access::Read, OFlags::empty())?;
        Ok(self.shared(file, path))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), MediaError> {
        let source = self.path_resolver.named("rename", from)?;
        let target = self.path_resolver.named("rename", to)?;
        let (old, new) = (source.directory(), target.directory());
        self.sys(
            "rename",
            to,
            rustix::fs::renameat(old, source.name, new, target.name),
        )
    }

    fn rename_new(&self, from: &str, to: &str) -> Result<(), MediaError> {
        let source = self.path_resolver.named("rename", from)?;
        let target = self.path_resolver.named("rename", to)?;
        let (old, new) = (source.directory(), target.directory());
        let only_new = RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(old, source.name, new, target.name, only_new) {
            // File systems without RENAME_NOREPLACE (NFS, some FUSE) still have link.
            Err(Errno::INVAL | Errno::NOSYS) => {
                // This acts on the link itself, if somebody has put one there.
                let flags = AtFlags::empty();
                match rustix::fs::linkat(old, source.name, new, target.name, flags) {
                    // No hard links either (exFAT, SMB): the pool's lock keeps other writers away.
                    Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => {
                        let found = rustix::fs::statat(new, target.name, AtFlags::SYMLINK_NOFOLLOW);
                        let renamed = match found {
                            Ok(_) => Err(Errno::EXIST),
                            Err(Errno::NOENT) => {
                                rustix::fs::renameat(old, source.name, new, target.name)
                            }
                            Err(e) => Err(e),
                        };
                        return self.sys("rename", to, renamed);
                    }
                    linked => self.sys("link", to, linked)?,
                }
                // The new name exists, so reporting an error would deny a put that took place. The
                // old name is swept later, as after a crash here.
                let _ = rustix::fs::unlinkat(old, source.name, flags);
                Ok(())
            }
            renamed => self.sys("rename", to, renamed),
        }
    }

    fn remove(&self, path: &str) -> Result<(), MediaError> {
        let named = self.path_resolver.named("remove", path)?;
        let removed = rustix::fs::unlinkat(named.directory(), named.name, AtFlags::empty());
        self.sys("remove", path, removed)
    }

    fn list(&self, dir: &str) -> Result<Vec<DiskEntry>, MediaError> {
        let handle = self.path_resolver.directory("list", dir, OFlags::RDONLY)?;
        let mut entries = Vec::new();
        for entry in self.sys("list", dir, rustix::fs::Dir::read_from(&handle))? {
            let entry = self.sys("list", dir, entry)?;
            // Our own names are ASCII. Others are not ours and are left alone.
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            if matches!(name, "." | "..") {
                continue;
            }
            let is_dir = match entry.file_type() {
                // Some file systems do not report the type here.
                FileType::Unknown => {
                    let flags = AtFlags::SYMLINK_NOFOLLOW;
                    match rustix::fs::statat(&handle, name, flags) {
                        Err(Errno::NOENT) => continue,
                        found => FileType::from_raw_mode(self.sys("list", dir, found)?.st_mode),
                    }
                }
                known => known,
            } == FileType::Directory;
            let name = name.to_owned();
            entries.push(DiskEntry { name, is_dir });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn make_dir(&self, dir: &str) -> Result<bool, MediaError> {
        let named = self.path_resolver.named("create", dir)?;
        match rustix::fs::mkdirat(named.directory(), named.name, Mode::RWXU) {
            Ok(()) => {
                self.io("create", dir, named.give_directory())?;
                Ok(true)
            }
            Err(Errno::EXIST) => Ok(false),
            Err(e) => self.sys("create", dir, Err(e)),
        }
    }

    fn sync_dir(&self, dir: &str, _point: Barrier) -> Result<(), MediaError> {
        let handle = self.path_resolver.directory("sync", dir, OFlags::RDONLY)?;
        self.io("sync", dir, sync_directory(&File::from(handle)))
    }

    fn room(&self) -> Option<Room> {
        let found = rustix::fs::fstatvfs(self.path_resolver.top().ok()?).ok()?;
        // All zero on some shares: unknown, not full.
        if found.f_blocks == 0 || found.f_frsize == 0 {
            return None;
        }
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        let used = found.f_blocks.saturating_sub(found.f_bfree);
        Some(Room {
            free_bytes: bytes(found.f_bavail),
            // Space reserved for root is unavailable to others.
            total_bytes: bytes(used.saturating_add(found.f_bavail)),
            free_inodes: found.f_favail,
            total_inodes: found.f_files,
            is_read_only: found.f_flag.contains(StatVfsMountFlags::RDONLY),
        })
    }

    fn lock(&self, path: &str) -> Result<DiskLock, MediaError> {
        let file = self
            .path_resolver
            .file("lock", path, Access::Write, OFlags::CREATE)?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(file)),
            Err(fs::TryLockError::WouldBlock) => {
                let shown = self.path_resolver.shown(path);
                Err(MediaError::plain(MediaErrorKind::Locked, "lock", &shown))
            }
            Err(fs::TryLockError::Error(e)) if owner_lock::is_without_locks(&e) => {
                let named = self.path_resolver.named("lock", path)?;
                let shown = self.path_resolver.shown(path);
                Ok(Box::new(owner_lock::take(&file, &named, &shown)?))
            }
            Err(fs::TryLockError::Error(e)) => self.io("lock", path, Err(e)),
        }
    }
}

/// Makes the names in a directory durable. Where directories cannot be synced (EINVAL: some FUSE
/// and SMB), the whole file system is asked.
fn sync_directory(directory: &File) -> std::io::Result<()> {
    match rustix::fs::fsync(directory) {
        Err(Errno::INVAL) => Ok(rustix::fs::syncfs(directory)?),
        synced => Ok(synced?),
    }
}

struct LocalFile {
    file: File,
    name: String,
    /// Second handle, with explicit read-ahead; `None` where that is impossible.
    ahead: OnceLock<Option<Ahead>>,
    announced: Announced,
    /// Second handle that reads past the page cache; `None` where that is impossible.
    past_cache: OnceLock<Option<PastCache>>,
    /// Second handle that writes past the page cache; `None` where that is impossible.
    to_past_cache: OnceLock<Option<PastCache>>,
}

/// Thousands are open at a time.
const _: () = assert!(size_of::<LocalFile>() <= 512);

impl LocalFile {
    fn shared(file: File, name: String) -> Arc<dyn DiskFile> {
        Arc::new(Self {
            file,
            name,
            ahead: OnceLock::new(),
            announced: Announced::default(),
            past_cache: OnceLock::new(),
            to_past_cache: OnceLock::new(),
        })
    }
}

impl LocalFile {
    fn past_cache(&self) -> Option<&PastCache> {
        let open = || PastCache::open(&self.file, past_cache::Access::Read);
        self.past_cache.get_or_init(open).as_ref()
    }

    /// Returns false if `into` could not be filled this way.
    fn reads_past_cache(&self, offset: u64, into: &mut [u8]) -> bool {
        self.past_cache()
            .is_some_and(|file| file.read_at(offset, into))
    }

    /// Makes the device begin to read a range, if `may` agrees. It gets the number of pages of the
    /// range that the system's cache has, if that is known.
    fn begin_read(&self, offset: u64, len: u64, may: fn(Option<u64>) -> bool) -> bool {
        let opened = self.ahead.get_or_init(|| Ahead::open(&self.file));
        let (Some(ahead), Some(bytes)) = (opened, NonZeroU64::new(len)) else {
            return false;
        };
        let cached_pages = resident::pages(ahead.file(), offset, len);
        if !may(cached_pages) {
            return false;
        }
        if cached_pages == Some(0) {
            self.announced.insert(offset, len);
        }
        ahead.announce(offset, bytes)
    }

    fn forget_last_block(&self) {
        if let Some(Some(file)) = self.past_cache.get() {
            file.forget();
        }
    }
}

impl DiskFile for LocalFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        io("read", &self.name, self.file.read_exact_at(into, offset))
    }

    fn announce_read(&self, offset: u64, len: u64) -> bool {
        // Where nothing is known, the read could not report that the device gave the bytes.
        self.begin_read(offset, len, |cached_pages| cached_pages.is_some())
    }

    fn read_around(&self, offset: u64, len: u64) {
        self.begin_read(offset, len, |_| true);
    }

    fn read_at_past_cache(&self, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        if self.reads_past_cache(offset, into) {
            return Ok(());
        }
        // The usual read reports any error. It reads from the device if the system drops its copy.
        reported::let_go(&self.file, offset, into.len());
        self.read_at(offset, into)
    }

    fn read_at_past_cache_within(
        &self,
        offset: u64,
        into: &mut [u8],
        limit: Duration,
    ) -> TimedRead {
        // Opening it here could wait.
        match self.past_cache.get() {
            Some(Some(file)) => file.read_within(offset, into, limit),
            _ => TimedRead::Unable(limit),
        }
    }

    fn prepare_reads_within(&self) {
        self.past_cache().inspect(|file| file.prepare());
    }

    fn read_at_reported(
        &self,
        offset: u64,
        into: &mut [u8],
        past_cache: bool,
    ) -> Result<ReadFrom, MediaError> {
        if past_cache {
            if self.reads_past_cache(offset, into) {
                return Ok(ReadFrom::Device);
            }
            reported::let_go(&self.file, offset, into.len());
        }
        let opened = self.ahead.get_or_init(|| Ahead::open(&self.file));
        let file = opened.as_ref().map_or(&self.file, Ahead::file);
        if self.announced.take(offset, into.len() as u64) {
            io("read", &self.name, file.read_exact_at(into, offset))?;
            return Ok(ReadFrom::Device);
        }
        io(
            "read",
            &self.name,
            reported::read_exact_at(file, offset, into),
        )
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
        self.forget_last_block();
        io("write", &self.name, self.file.write_all_at(data, offset))
    }

    fn write_at_past_cache(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        self.forget_last_block();
        let open = || PastCache::open(&self.file, past_cache::Access::Write);
        let opened = self.to_past_cache.get_or_init(open);
        let written = opened
            .as_ref()
            .map_or(0, |file| file.write_at(offset, data));
        match data.get(written..) {
            None | Some([]) => Ok(()),
            // The usual write writes the end, and reports any error.
            Some(rest) => self.write_at(offset.saturating_add(written as u64), rest),
        }
    }

    fn len(&self) -> Result<u64, MediaError> {
        Ok(io("stat", &self.name, self.file.metadata())?.len())
    }

    fn set_len(&self, len: u64) -> Result<(), MediaError> {
        self.forget_last_block();
        io("truncate", &self.name, self.file.set_len(len))
    }

    fn allocate(&self, len: u64) -> Result<(), MediaError> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        let from = self.len()?;
        let more = len.saturating_sub(from);
        match fallocate(&self.file, FallocateFlags::empty(), from, more) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => crate::disk::fill(self, len),
            done => io("allocate", &self.name, done.map_err(std::io::Error::from)),
        }
    }

    fn give_back(&self, len: u64) -> Result<(), MediaError> {
        self.set_len(len)?;
        // btrfs and ext4 reuse freed blocks only after the next commit.
        let synced = rustix::fs::syncfs(&self.file).map_err(std::io::Error::from);
        io("sync", &self.name, synced)
    }

    fn will_be_overwritten(&self) {
        use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
        // btrfs supports the flag; other file systems refuse it.
        if let Ok(flags) = ioctl_getflags(&self.file) {
            let _ = ioctl_setflags(&self.file, flags | IFlags::NOCOW);
        }
    }

    fn claim(&self, len: u64) -> Result<bool, MediaError> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        match fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, len) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(false),
            done => {
                let done = done.map_err(std::io::Error::from);
                io("allocate", &self.name, done).map(|()| true)
            }
        }
    }

    fn sync(&self, _point: Barrier) -> Result<(), MediaError> {
        // This makes bytes and length durable, as promised, but not the modification time. Where
        // nothing is newly allocated, as in the journal, that saves the file system a commit of its
        // own.
        io("sync", &self.name, self.file.sync_data())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scrub relies on that: what was announced came from the device, what was cached before did
    /// not.
    #[test]
    fn an_announced_read_is_from_the_device_unless_it_was_cached() {
        let dir = std::env::var("CARGO_TARGET_TMPDIR").unwrap_or_else(|_| ".".to_owned());
        let disk = LocalDisk::new(format!("{dir}/announced-{}", std::process::id()));
        disk.create_top().expect("top");
        let file = disk.create_new("a").expect("new");
        let bytes: Vec<u8> = (0..1 << 20).map(|n: u32| (n >> 12) as u8).collect();
        file.write_at(0, &bytes).expect("write");
        file.sync(Barrier::BlobBeforeName).expect("sync");
        let file = disk.open_read("a").expect("open");
        let mut into = vec![0; 20_000];
        assert!(file.announce_read(8192, 20_000), "it takes the advice");
        let warm = file.read_at_reported(8192, &mut into, false);
        assert_eq!(warm.expect("read"), ReadFrom::Cache, "written a moment ago");
        let plain = File::open(disk.top().join("a")).expect("open");
        reported::let_go(&plain, 0, bytes.len());
        if resident::pages(&plain, 0, bytes.len() as u64) == Some(0) {
            assert!(file.announce_read(300_000, 20_000));
            let first = file.read_at_reported(300_000, &mut into, false);
            assert_eq!(first.expect("read"), ReadFrom::Device);
            assert_eq!(into, bytes[300_000..320_000]);
            let again = file.read_at_reported(300_000, &mut into, false);
            assert_eq!(again.expect("read"), ReadFrom::Cache);
        } else {
            eprintln!("skipped: this file system does not say what it has, or keeps all of it");
        }
        let _ = fs::remove_dir_all(disk.top());
    }
}
