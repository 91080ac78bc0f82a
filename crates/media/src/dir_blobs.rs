//! Implements [`Blobs`] over a [`Disk`]: a blob is a file that gets its name only when its bytes
//! are durable. The store uses this through [`Blobs`].
//!
//! Invariant: a put creates a new temporary file, writes the bytes, syncs, then renames. It never
//! reuses a temporary file of a crashed writer: after a crash that may be another name of a stored
//! blob. The barrier syncs the directories of new names.
//!
//! Background threads ([`Syncing::Threads`]) write and sync containers, so that the disk works
//! while the CPU compresses. The simulator does the same inline. So does a thread that waits for
//! I/O grants: barriers of other threads do not wait for it.
//!
//! A put is queued once the disk has allocated its space, where the file system supports that;
//! otherwise as far as free space is known. A put that fails in the background poisons everything.
//! Before a put fails on a full disk, it uses the reserve, as far as its need may.

mod open_files;
mod queue;
mod spare;

use crate::{
    Barrier, Blobs, Disk, DiskFile, IoOrigin, MediaError, MediaErrorKind, Need, Put, ReadFrom,
    Reserve,
};
use open_files::OpenFiles;
use parking_lot::Mutex;
use queue::{Job, Queue};
use spare::BufferPool;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Directory of files that have no name yet. Every writer sweeps it at its start.
const UNNAMED: &str = "tmp";

/// Selects which thread waits for the disk during a put.
#[derive(Clone, Copy, Debug)]
pub enum Syncing {
    /// The caller waits: deterministic, for the simulator.
    Inline,
    /// This many threads wait. At most `queue` blobs are queued, then puts block: that is the
    /// memory limit.
    Threads {
        /// Number of threads.
        threads: usize,
        /// Maximum number of queued blobs.
        queue: usize,
    },
}

/// A file that is to become a blob.
struct Unnamed {
    name: String,
    file: Arc<dyn DiskFile>,
    /// The disk has allocated space for the whole blob.
    is_claimed: bool,
}

struct BlobDirectory {
    disk: Arc<dyn Disk>,
    queue: Queue,
    open: OpenFiles,
    spare: BufferPool,
    unnamed_next: AtomicU64,
    reserve: Reserve,
    /// Bytes of blobs that are queued or being written and have no allocated space.
    queued_bytes: AtomicU64,
}

/// Blobs as files.
pub struct DirBlobs {
    shared: Arc<BlobDirectory>,
    inline: bool,
    /// Locked from checking the space beside the reserve until that space is taken.
    sparing: Mutex<()>,
    threads: Vec<JoinHandle<()>>,
}

impl DirBlobs {
    /// Stores blobs in the top directory of `disk`.
    pub fn new(disk: Arc<dyn Disk>, syncing: Syncing) -> Self {
        let (count, queue_max, inline) = match syncing {
            Syncing::Inline => (0, 0, true),
            Syncing::Threads { threads, queue } => (threads.max(1), queue.max(1), false),
        };
        let shared = Arc::new(BlobDirectory {
            reserve: Reserve::new(Arc::clone(&disk)),
            queued_bytes: AtomicU64::new(0),
            disk,
            queue: Queue::new(queue_max),
            open: OpenFiles::default(),
            spare: BufferPool::new(count),
            unnamed_next: AtomicU64::new(0),
        });
        let threads = (0..count)
            .map(|_| {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || shared.work())
            })
            .collect();
        Self {
            shared,
            inline,
            sparing: Mutex::default(),
            threads,
        }
    }

    fn file(&self, name: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        let open = || self.shared.disk.open_read(name);
        self.shared.open.get(name, open)
    }

    fn put_with(&self, name: &str, bytes: Vec<u8>, how: Put, need: Need) -> Result<(), MediaError> {
        let shared = &self.shared;
        let waits = matches!(how, Put::IfAbsent | Put::Restore);
        if self.inline || waits || shared.disk.is_paced() {
            shared.queue.accept("store", name)?;
            let stored = shared.store(name, &bytes, how, need);
            shared.spare.give(bytes);
            return stored;
        }
        let len = bytes.len() as u64;
        shared.queue.refuse_poisoned("store", name)?;
        let unnamed = shared.prepare(name, len, need)?;
        if !unnamed.is_claimed {
            shared.queued_bytes.fetch_add(len, Ordering::Relaxed);
        }
        let pushed = shared.queue.push(Job {
            number: 0,
            name: name.to_owned(),
            bytes,
            how,
            need,
            unnamed,
            io_origin: IoOrigin::current(),
        });
        pushed.map_err(|(e, unnamed)| {
            let _ = shared.disk.remove(&unnamed.name);
            if !unnamed.is_claimed {
                shared.queued_bytes.fetch_sub(len, Ordering::Relaxed);
            }
            e
        })
    }
}

impl Drop for DirBlobs {
    fn drop(&mut self) {
        self.shared.queue.stop();
        for thread in self.threads.drain(..) {
            // A panicking thread has already been reported by the panic itself.
            let _ = thread.join();
        }
    }
}

impl BlobDirectory {
    fn work(&self) {
        while let Some(job) = self.queue.take() {
            let running = self.queue.running(job.number);
            let _io_origin = job.io_origin.begin();
            let bytes = job.bytes.len() as u64;
            if !job.unnamed.is_claimed {
                self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
            let result = match self.fill(job.unnamed, &job.name, &job.bytes, job.how) {
                Err(e) if e.kind == MediaErrorKind::NoSpace => {
                    self.store(&job.name, &job.bytes, job.how, job.need)
                }
                stored => stored,
            };
            self.spare.give(job.bytes);
            running.end(result);
        }
    }

    /// Returns free and reserved space, less queued blobs; `None` if it is unknown.
    fn reserved(&self) -> Option<crate::Reserved> {
        let mut reserved = self.reserve.look()?;
        let queued = self.queued_bytes.load(Ordering::Relaxed);
        reserved.free_bytes = reserved.free_bytes.saturating_sub(queued);
        Some(reserved)
    }

    /// Prepares a queued put: creates its file and allocates its space, also from the reserve.
    /// Fails when that is too little.
    fn prepare(&self, name: &str, bytes: u64, need: Need) -> Result<Unnamed, MediaError> {
        let reserve = &self.reserve;
        let mut unnamed = reserve.with_room(bytes, need, || self.new_unnamed(name))?;
        let claimed = reserve.with_room(bytes, need, || unnamed.file.claim(bytes));
        let claimed = claimed.and_then(|is_claimed| {
            if !is_claimed {
                self.make_room(name, bytes, need)?;
            }
            Ok(is_claimed)
        });
        match claimed {
            Ok(is_claimed) => {
                unnamed.is_claimed = is_claimed;
                Ok(unnamed)
            }
            Err(e) => {
                let _ = self.disk.remove(&unnamed.name);
                Err(named(e, &unnamed.name, name))
            }
        }
    }

    /// Makes space where the file system cannot allocate it in advance, as far as free space is
    /// known.
    fn make_room(&self, name: &str, bytes: u64, need: Need) -> Result<(), MediaError> {
        match self.reserved() {
            Some(reserved) if reserved.free_bytes < bytes => {
                if reserved.for_need(need) < bytes {
                    return Err(no_space(name));
                }
                self.reserve.release(bytes - reserved.free_bytes, need);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Stores a blob. On a full disk it uses the reserve.
    fn store(&self, name: &str, bytes: &[u8], how: Put, need: Need) -> Result<(), MediaError> {
        self.reserve.with_room(bytes.len() as u64, need, || {
            self.fill(self.new_unnamed(name)?, name, bytes, how)
        })
    }

    fn new_unnamed(&self, name: &str) -> Result<Unnamed, MediaError> {
        self.make_dirs(UNNAMED)?;
        self.make_dirs(parent(name))?;
        self.create_unnamed(name)
    }

    /// Writes the bytes, syncs and renames. The name itself is not durable yet.
    fn fill(&self, unnamed: Unnamed, name: &str, bytes: &[u8], how: Put) -> Result<(), MediaError> {
        let Unnamed {
            name: unnamed,
            file,
            ..
        } = unnamed;
        let written = file
            .write_at(0, bytes)
            .and_then(|()| match (how, file.sync(Barrier::BlobBeforeName)) {
                // Do not poison: the new file is removed and no caller relies on it.
                (Put::Restore, synced) => synced,
                (_, synced) => self.synced(synced),
            })
            .map_err(|e| named(e, &unnamed, name))
            .and_then(|()| match how {
                Put::Replace | Put::Restore => self.disk.rename(&unnamed, name),
                Put::New | Put::IfAbsent => self.disk.rename_new(&unnamed, name),
            });
        if let Err(e) = written {
            // Best effort: it frees space now instead of at the next writer's sweep.
            let _ = self.disk.remove(&unnamed);
            return Err(e);
        }
        self.open.forget(name);
        self.queue.named(parent(name));
        Ok(())
    }

    /// Creates a file that is exclusive to this put. Another process may be putting the same blob.
    fn create_unnamed(&self, name: &str) -> Result<Unnamed, MediaError> {
        let flat = name.replace('/', ".");
        loop {
            let number = self.unnamed_next.fetch_add(1, Ordering::Relaxed);
            let unnamed = format!("{UNNAMED}/{flat}.{number}");
            match self.disk.create_new(&unnamed) {
                Ok(file) => {
                    return Ok(Unnamed {
                        name: unnamed,
                        file,
                        is_claimed: false,
                    });
                }
                Err(e) if e.kind == MediaErrorKind::Exists => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Makes a directory and its parents. Each entry is durable before it is used.
    fn make_dirs(&self, dir: &str) -> Result<(), MediaError> {
        if dir.is_empty() || self.queue.is_known(dir) {
            return Ok(());
        }
        let above = parent(dir);
        self.make_dirs(above)?;
        self.disk.make_dir(dir)?;
        // Sync even if it existed: the process that made it may have died before its sync.
        self.synced(self.disk.sync_dir(above, Barrier::DirectoryBeforeNames))?;
        self.queue.know(dir);
        Ok(())
    }

    /// Poisons the queue on a failed sync. Trying again is wrong: the next sync may succeed without
    /// the bytes.
    fn synced(&self, result: Result<(), MediaError>) -> Result<(), MediaError> {
        result.inspect_err(|e| self.queue.poison(e))
    }
}

impl Blobs for DirBlobs {
    fn buffer(&self) -> Vec<u8> {
        self.shared.spare.take()
    }

    fn put(&self, name: &str, bytes: Vec<u8>, how: Put) -> Result<(), MediaError> {
        self.put_with(name, bytes, how, Need::Room)
    }

    fn put_for(&self, name: &str, bytes: Vec<u8>, how: Put, need: Need) -> Result<(), MediaError> {
        if need != Need::New {
            return self.put_with(name, bytes, how, need);
        }
        // One thread at a time: several that look at once would count the same space.
        let _one = self.sparing.lock();
        match self.shared.reserved() {
            Some(reserved) if reserved.for_need(need) < bytes.len() as u64 => Err(no_space(name)),
            _ => self.put_with(name, bytes, how, need),
        }
    }

    fn reserved(&self) -> Option<crate::Reserved> {
        self.shared.reserved()
    }

    fn reserve(&self) -> Option<&Reserve> {
        Some(&self.shared.reserve)
    }

    fn discard(&self, name: &str) -> Result<(), MediaError> {
        self.shared.queue.wait_for(name);
        let removed = self.shared.disk.remove(name);
        self.shared.open.forget(name);
        match removed {
            Err(e) if e.kind == MediaErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    fn read_range(&self, name: &str, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        self.file(name)?.read_at(offset, into)
    }

    fn announce_read(&self, name: &str, offset: u64, len: u64) -> bool {
        // Opening a file may wait for the device.
        let open = self.shared.open.kept(name);
        open.is_some_and(|file| file.announce_read(offset, len))
    }

    fn read_range_past_cache(
        &self,
        name: &str,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), MediaError> {
        self.file(name)?.read_at_past_cache(offset, into)
    }

    fn read_range_reported(
        &self,
        name: &str,
        offset: u64,
        into: &mut [u8],
        past_cache: bool,
    ) -> Result<ReadFrom, MediaError> {
        self.file(name)?.read_at_reported(offset, into, past_cache)
    }

    fn len(&self, name: &str) -> Result<u64, MediaError> {
        self.file(name)?.len()
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, MediaError> {
        match self.shared.disk.list(prefix) {
            Err(e) if e.kind == MediaErrorKind::NotFound => Ok(Vec::new()),
            entries => Ok(entries?.into_iter().map(|e| e.name).collect()),
        }
    }

    fn delete(&self, name: &str) -> Result<(), MediaError> {
        let shared = &self.shared;
        shared.queue.accept("delete", name)?;
        let removed = shared.disk.remove(name);
        shared.open.forget(name);
        let dir = parent(name);
        match removed {
            Ok(()) => shared.queue.named(dir),
            // There is nothing to make durable, and perhaps no directory.
            Err(e) if e.kind == MediaErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        Ok(())
    }

    fn sweep(&self) -> Result<(), MediaError> {
        let entries = match self.shared.disk.list(UNNAMED) {
            Err(e) if e.kind == MediaErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        // A directory here is not ours, and no reason to refuse the pool.
        for entry in entries.iter().filter(|entry| !entry.is_dir) {
            let unnamed = format!("{UNNAMED}/{}", entry.name);
            self.shared.disk.remove(&unnamed)?;
        }
        Ok(())
    }

    fn adopt(&self, name: &str) {
        // The bytes were synced before the name appeared. Only names may not be durable, including
        // those of the directories above.
        let mut name = name;
        while !name.is_empty() {
            name = parent(name);
            self.shared.queue.named(name);
        }
    }

    fn barrier(&self, point: Barrier) -> Result<(), MediaError> {
        self.shared.queue.barrier(|dirs| {
            dirs.iter()
                .try_for_each(|dir| self.shared.disk.sync_dir(dir, point))
        })
    }
}

fn parent(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(dir, _)| dir)
}

/// Names the blob in an error. Users do not know its temporary file.
fn named(e: MediaError, unnamed: &str, name: &str) -> MediaError {
    let name = match e.name.strip_suffix(unnamed) {
        Some(above) => format!("{above}{name}"),
        None => name.to_owned(),
    };
    MediaError { name, ..e }
}

fn no_space(name: &str) -> MediaError {
    MediaError::plain(MediaErrorKind::NoSpace, "store", name)
}
