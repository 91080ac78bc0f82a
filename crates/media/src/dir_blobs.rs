//! [`Blobs`] over a [`Disk`]: a blob is a file that gets its name only when its bytes are durable.
//!
//! Invariant: temp file, bytes, sync, then rename; the directories of new names are synced at the
//! barrier. Containers are written and synced by background threads ([`Syncing::Threads`]) so that
//! the disk works while the CPU compresses; the simulator does the same inline.

use crate::{Barrier, Blobs, Disk, DiskFile, MediaError, MediaErrorKind, Put};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

/// Directory of files that have no name yet; swept at the start of every writer.
const UNNAMED: &str = "tmp";
/// Open files kept for reading.
const OPEN_FILES_MAX: usize = 256;

/// Who waits for the disk during a put.
#[derive(Clone, Copy, Debug)]
pub enum Syncing {
    /// The caller: deterministic, for the simulator.
    Inline,
    /// This many threads; at most `queue` blobs wait, then puts block (the memory limit).
    Threads {
        /// Number of threads.
        threads: usize,
        /// Blobs that may wait.
        queue: usize,
    },
}

struct Job {
    name: String,
    bytes: Vec<u8>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    running: usize,
    stop: bool,
    failed: Option<MediaErrorKind>,
    first_error: Option<MediaError>,
    /// Directories with names that are not durable yet.
    dirs_unsynced: BTreeSet<String>,
    /// Directories known to exist, with durable entry.
    dirs_known: BTreeSet<String>,
}

struct Shared {
    disk: Arc<dyn Disk>,
    state: Mutex<State>,
    changed: Condvar,
    unnamed_next: AtomicU64,
}

/// Blobs as files. See the module's head.
pub struct DirBlobs {
    shared: Arc<Shared>,
    queue_max: usize,
    inline: bool,
    open: Mutex<HashMap<String, Arc<dyn DiskFile>>>,
    threads: Vec<JoinHandle<()>>,
}

impl DirBlobs {
    /// Blobs in the top directory of `disk`.
    pub fn new(disk: Arc<dyn Disk>, syncing: Syncing) -> Self {
        let shared = Arc::new(Shared {
            disk,
            state: Mutex::default(),
            changed: Condvar::new(),
            unnamed_next: AtomicU64::new(0),
        });
        let (count, queue_max, inline) = match syncing {
            Syncing::Inline => (0, 0, true),
            Syncing::Threads { threads, queue } => (threads.max(1), queue.max(1), false),
        };
        let threads = (0..count)
            .map(|_| {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || shared.work())
            })
            .collect();
        Self {
            shared,
            queue_max,
            inline,
            open: Mutex::default(),
            threads,
        }
    }

    fn file(&self, name: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        let mut open = lock(&self.open);
        if let Some(file) = open.get(name) {
            return Ok(Arc::clone(file));
        }
        drop(open);
        let file = self.shared.disk.open_read(name)?;
        open = lock(&self.open);
        if open.len() >= OPEN_FILES_MAX {
            open.clear();
        }
        open.insert(name.to_owned(), Arc::clone(&file));
        Ok(file)
    }
}

impl Drop for DirBlobs {
    fn drop(&mut self) {
        lock(&self.shared.state).stop = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A panicking thread has already been reported by the panic itself.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn work(&self) {
        let mut state = lock(&self.state);
        loop {
            if let Some(job) = state.waiting.pop_front() {
                state.running += 1;
                drop(state);
                self.changed.notify_all();
                let result = self.store(&job.name, &job.bytes, Put::Replace);
                state = lock(&self.state);
                state.running -= 1;
                if let Err(e) = result {
                    state.failed.get_or_insert(e.kind);
                    state.first_error.get_or_insert(e);
                }
                self.changed.notify_all();
            } else if state.stop {
                return;
            } else {
                state = self.changed.wait(state).unwrap_or_else(|e| e.into_inner());
            }
        }
    }

    /// Temp file, bytes, sync, name. The name itself is not durable yet.
    fn store(&self, name: &str, bytes: &[u8], how: Put) -> Result<(), MediaError> {
        self.make_dirs(UNNAMED)?;
        let dir = parent(name);
        self.make_dirs(dir)?;
        let number = self.unnamed_next.fetch_add(1, Ordering::Relaxed);
        let unnamed = format!("{UNNAMED}/{}.{number}", name.replace('/', "."));
        let written = self
            .write_unnamed(&unnamed, bytes)
            .and_then(|()| match how {
                Put::Replace => self.disk.rename(&unnamed, name),
                Put::IfAbsent => self.disk.rename_new(&unnamed, name),
            });
        if let Err(e) = written {
            // Best effort: space comes back now rather than at the next writer's sweep.
            let _ = self.disk.remove(&unnamed);
            return Err(e);
        }
        lock(&self.state).dirs_unsynced.insert(dir.to_owned());
        Ok(())
    }

    fn write_unnamed(&self, unnamed: &str, bytes: &[u8]) -> Result<(), MediaError> {
        let file = self.disk.open(unnamed, true)?;
        file.write_at(0, bytes)?;
        file.sync(Barrier::BlobBeforeName)
    }

    /// Makes a directory and its parents, each entry durable before it is used.
    fn make_dirs(&self, dir: &str) -> Result<(), MediaError> {
        if dir.is_empty() || lock(&self.state).dirs_known.contains(dir) {
            return Ok(());
        }
        self.make_dirs(parent(dir))?;
        self.disk.make_dir(dir)?;
        // Also when it existed: the process that made it may have died before its sync.
        self.disk
            .sync_dir(parent(dir), Barrier::DirectoryBeforeNames)?;
        lock(&self.state).dirs_known.insert(dir.to_owned());
        Ok(())
    }
}

impl Blobs for DirBlobs {
    fn put(&self, name: &str, bytes: Vec<u8>, how: Put) -> Result<(), MediaError> {
        let mut state = lock(&self.shared.state);
        refuse_poisoned(&mut state, "put", name)?;
        lock(&self.open).remove(name);
        if self.inline || how == Put::IfAbsent {
            drop(state);
            return self.shared.store(name, &bytes, how);
        }
        while state.waiting.len() >= self.queue_max {
            state = self
                .shared
                .changed
                .wait(state)
                .unwrap_or_else(|e| e.into_inner());
        }
        state.waiting.push_back(Job {
            name: name.to_owned(),
            bytes,
        });
        drop(state);
        self.shared.changed.notify_all();
        Ok(())
    }

    fn read_range(&self, name: &str, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        self.file(name)?.read_at(offset, into)
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
        lock(&self.open).remove(name);
        match self.shared.disk.remove(name) {
            Err(e) if e.kind != MediaErrorKind::NotFound => Err(e),
            _ => {
                lock(&self.shared.state)
                    .dirs_unsynced
                    .insert(parent(name).to_owned());
                Ok(())
            }
        }
    }

    fn sweep(&self) -> Result<(), MediaError> {
        let entries = match self.shared.disk.list(UNNAMED) {
            Err(e) if e.kind == MediaErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            self.shared
                .disk
                .remove(&format!("{UNNAMED}/{}", entry.name))?;
        }
        Ok(())
    }

    fn adopt(&self, name: &str) {
        // The bytes were synced before the name appeared: only names are in doubt, those of the
        // directories above included.
        let mut state = lock(&self.shared.state);
        let mut name = name;
        while !name.is_empty() {
            name = parent(name);
            state.dirs_unsynced.insert(name.to_owned());
        }
    }

    fn barrier(&self, point: Barrier) -> Result<(), MediaError> {
        let mut state = lock(&self.shared.state);
        while state.running > 0 || !state.waiting.is_empty() {
            state = self
                .shared
                .changed
                .wait(state)
                .unwrap_or_else(|e| e.into_inner());
        }
        refuse_poisoned(&mut state, "barrier", "")?;
        let dirs = std::mem::take(&mut state.dirs_unsynced);
        drop(state);
        for dir in dirs {
            if let Err(e) = self.shared.disk.sync_dir(&dir, point) {
                lock(&self.shared.state).failed = Some(MediaErrorKind::Poisoned);
                return Err(e);
            }
        }
        Ok(())
    }
}

/// The first failure is told in full once, then every caller hears `Poisoned`.
fn refuse_poisoned(
    state: &mut State,
    operation: &'static str,
    name: &str,
) -> Result<(), MediaError> {
    if let Some(e) = state.first_error.take() {
        return Err(e);
    }
    match state.failed {
        Some(_) => Err(MediaError::plain(MediaErrorKind::Poisoned, operation, name)),
        None => Ok(()),
    }
}

fn parent(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(dir, _)| dir)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
