//! [`SimDisk`]: `media::Disk` in memory, with a log of everything that was done.
//!
//! Invariant: reads show the volatile state, as the page cache of a running machine does; what
//! would survive a power loss is decided later, from the log (`pending`, `crash`). One lock orders
//! all operations and is never held across a call to somebody else. Called by the store's and the
//! conformance tests through `media::Disk`, and by the explorer.
//!
//! A `SimDisk` is the disk as one *process* sees it: [`SimDisk::kill`] ends that process, so that
//! whatever it still does (a destructor that flushes, say) fails and changes nothing, and returns
//! the same disk for the next process.

use crate::fault::{Counts, Fault, Faults};
use crate::file::SimFile;
use crate::image::{Dir, DirId, FileId, Image, Node, TOP};
use crate::record::{Effect, Entry, Op, Recording, Slot};
use media::{Barrier, Disk, DiskEntry, DiskFile, DiskLock, MediaError, MediaErrorKind};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// A disk in memory. See the module's head.
pub struct SimDisk {
    pub(crate) shared: Arc<Mutex<State>>,
    pub(crate) process: u64,
}

pub(crate) struct State {
    pub(crate) image: Image,
    base: Image,
    log: Arc<Vec<Entry>>,
    recording: bool,
    process: u64,
    /// Operations that the process still lives to see.
    dies_after: Option<u64>,
    /// Which process has which lock file.
    locks: BTreeMap<FileId, u64>,
    without: BTreeSet<Barrier>,
    pub(crate) faults: Faults,
    pub(crate) counts: Counts,
}

impl State {
    pub(crate) fn record(&mut self, path: &str, op: Op) {
        match &mut self.dies_after {
            Some(0 | 1) => self.die(),
            Some(more) => *more -= 1,
            None => {}
        }
        if self.recording {
            Arc::make_mut(&mut self.log).push(Entry {
                op,
                path: path.into(),
            });
        }
    }

    /// The process is no more; its locks are free, its operations fail.
    fn die(&mut self) {
        self.process += 1;
        self.dies_after = None;
        self.locks.clear();
    }

    /// What a sync at `point` does, and what its caller hears.
    pub(crate) fn sync(&mut self, path: &str, point: Barrier) -> (Effect, Result<(), MediaError>) {
        match self.faults.sync(path) {
            Err(e) => (Effect::Dropped, Err(e)),
            Ok(()) if self.without.contains(&point) => (Effect::LeftOut, Ok(())),
            Ok(()) => (Effect::Durable, Ok(())),
        }
    }
}

impl SimDisk {
    /// An empty disk that records.
    pub fn new() -> Arc<Self> {
        Self::on(Image::new())
    }

    /// A disk that holds `image`, all of it durable, and records what follows.
    pub fn on(image: Image) -> Arc<Self> {
        Self::with(image, true)
    }

    /// The same without a record: cheaper, for states that are only looked at.
    pub fn unrecorded(image: Image) -> Arc<Self> {
        Self::with(image, false)
    }

    fn with(image: Image, recording: bool) -> Arc<Self> {
        let state = State {
            base: image.clone(),
            image,
            log: Arc::default(),
            recording,
            process: 0,
            dies_after: None,
            locks: BTreeMap::new(),
            without: BTreeSet::new(),
            faults: Faults::default(),
            counts: Counts::default(),
        };
        Arc::new(Self {
            shared: Arc::new(Mutex::new(state)),
            process: 0,
        })
    }

    /// From now on syncs at `point` say Ok and do nothing: a mutant for canaries.
    pub fn without(self: Arc<Self>, point: Barrier) -> Arc<Self> {
        self.state().without.insert(point);
        self
    }

    /// Adds an error to come.
    pub fn inject(&self, fault: Fault) {
        self.state().faults.add(fault);
    }

    /// Forgets the errors to come. What they did to the disk stays.
    pub fn heal(&self) {
        self.state().faults.clear();
    }

    /// What was asked so far, refused operations included.
    pub fn counts(&self) -> Counts {
        self.state().counts
    }

    /// Number of operations recorded so far: a place in the log.
    pub fn position(&self) -> usize {
        self.state().log.len()
    }

    /// What was recorded so far.
    pub fn recording(&self) -> Recording {
        let state = self.state();
        Recording {
            base: state.base.clone(),
            log: Arc::clone(&state.log),
        }
    }

    /// What a running process sees now.
    pub fn image(&self) -> Image {
        self.state().image.clone()
    }

    /// Forgets the record: what the disk shows now counts as durable.
    pub fn settle(&self) {
        let mut state = self.state();
        state.base = state.image.clone();
        state.log = Arc::default();
    }

    /// The process dies and another one starts: locks are released, nothing is lost.
    pub fn kill(&self) -> Arc<Self> {
        let mut state = self.state();
        state.die();
        state.record("", Op::Kill);
        Arc::new(Self {
            shared: Arc::clone(&self.shared),
            process: state.process,
        })
    }

    /// The process will die after so many (at least one) operations that change or sync
    /// something; whatever it does then fails. [`SimDisk::kill`] starts the next one.
    pub fn kill_after(&self, operations: u64) {
        self.state().dies_after = Some(operations.max(1));
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.shared)
    }

    /// The state, for an operation of a process that lives.
    fn alive(
        &self,
        operation: &'static str,
        path: &str,
    ) -> Result<MutexGuard<'_, State>, MediaError> {
        check_path(operation, path)?;
        alive(&self.shared, self.process, operation, path)
    }

    fn file(&self, path: &str, file: FileId, writable: bool) -> Arc<dyn DiskFile> {
        Arc::new(SimFile {
            shared: Arc::clone(&self.shared),
            process: self.process,
            file,
            path: path.into(),
            writable,
        })
    }

    /// Links a new empty file.
    fn create(state: &mut State, path: &str, at: Slot) -> Result<FileId, MediaError> {
        state.counts.names += 1;
        state.faults.names("open", path)?;
        let file = state.image.files.push(Default::default());
        names(state, at.dir).insert(Arc::clone(&at.name), Node::File(file));
        state.record(path, Op::Create { at, file });
        Ok(file)
    }

    fn move_file(&self, from: &str, to: &str, replace: bool) -> Result<(), MediaError> {
        check_path("rename", from)?;
        let mut state = self.alive("rename", to)?;
        state.counts.names += 1;
        state.faults.names("rename", to)?;
        let (source, target) = (slot(&state, "rename", from)?, slot(&state, "rename", to)?);
        let file = match state.image.entry(source.dir, &source.name) {
            Some(Node::File(file)) => file,
            Some(Node::Dir(_)) => return Err(error("rename", from, io::ErrorKind::IsADirectory)),
            None => return Err(error("rename", from, io::ErrorKind::NotFound)),
        };
        match state.image.entry(target.dir, &target.name) {
            Some(_) if !replace => return Err(error("rename", to, io::ErrorKind::AlreadyExists)),
            Some(Node::Dir(_)) => return Err(error("rename", to, io::ErrorKind::IsADirectory)),
            // Two names of one file: rename(2) does nothing.
            Some(Node::File(other)) if other == file => return Ok(()),
            _ => {}
        }
        names(&mut state, source.dir).remove(&source.name);
        names(&mut state, target.dir).insert(Arc::clone(&target.name), Node::File(file));
        state.record(
            to,
            Op::Rename {
                from: source,
                to: target,
                file,
            },
        );
        Ok(())
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &str, create: bool) -> Result<Arc<dyn DiskFile>, MediaError> {
        let mut state = self.alive("open", path)?;
        state.counts.opens += 1;
        state.faults.change("open", path)?;
        let at = slot(&state, "open", path)?;
        let file = match state.image.entry(at.dir, &at.name) {
            Some(Node::Dir(_)) => return Err(error("open", path, io::ErrorKind::IsADirectory)),
            Some(Node::File(file)) => {
                if create && state.image.files.get(file).len() > 0 {
                    state.image.files.get_mut(file).set_len(0);
                    state.record(path, Op::SetLen { file, len: 0 });
                }
                file
            }
            None if create => Self::create(&mut state, path, at)?,
            None => return Err(error("open", path, io::ErrorKind::NotFound)),
        };
        Ok(self.file(path, file, true))
    }

    fn open_read(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        let mut state = self.alive("open", path)?;
        state.counts.opens += 1;
        state.faults.any("open", path)?;
        let at = slot(&state, "open", path)?;
        match state.image.entry(at.dir, &at.name) {
            Some(Node::File(file)) => Ok(self.file(path, file, false)),
            Some(Node::Dir(_)) => Err(error("open", path, io::ErrorKind::IsADirectory)),
            None => Err(error("open", path, io::ErrorKind::NotFound)),
        }
    }

    fn create_new(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        let mut state = self.alive("open", path)?;
        state.counts.opens += 1;
        let at = slot(&state, "open", path)?;
        if state.image.entry(at.dir, &at.name).is_some() {
            return Err(error("open", path, io::ErrorKind::AlreadyExists));
        }
        let file = Self::create(&mut state, path, at)?;
        Ok(self.file(path, file, true))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), MediaError> {
        self.move_file(from, to, true)
    }

    fn rename_new(&self, from: &str, to: &str) -> Result<(), MediaError> {
        self.move_file(from, to, false)
    }

    fn remove(&self, path: &str) -> Result<(), MediaError> {
        let mut state = self.alive("remove", path)?;
        state.counts.names += 1;
        state.faults.names("remove", path)?;
        let at = slot(&state, "remove", path)?;
        match state.image.entry(at.dir, &at.name) {
            Some(Node::File(_)) => {}
            Some(Node::Dir(_)) => return Err(error("remove", path, io::ErrorKind::IsADirectory)),
            None => return Err(error("remove", path, io::ErrorKind::NotFound)),
        }
        names(&mut state, at.dir).remove(&at.name);
        state.record(path, Op::Remove { at });
        Ok(())
    }

    fn list(&self, dir: &str) -> Result<Vec<DiskEntry>, MediaError> {
        let mut state = self.alive("list", dir)?;
        state.counts.lists += 1;
        state.faults.any("list", dir)?;
        let id = find_dir(&state, "list", dir)?;
        let entries = state
            .image
            .dirs
            .get(id)
            .iter()
            .map(|(name, node)| DiskEntry {
                name: name.to_string(),
                is_dir: matches!(node, Node::Dir(_)),
            });
        Ok(entries.collect())
    }

    fn make_dir(&self, dir: &str) -> Result<bool, MediaError> {
        let mut state = self.alive("create", dir)?;
        state.counts.names += 1;
        state.faults.names("create", dir)?;
        let at = slot(&state, "create", dir)?;
        if state.image.entry(at.dir, &at.name).is_some() {
            return Ok(false);
        }
        let id = state.image.dirs.push(Dir::new());
        names(&mut state, at.dir).insert(Arc::clone(&at.name), Node::Dir(id));
        state.record(dir, Op::MakeDir { at, dir: id });
        Ok(true)
    }

    fn sync_dir(&self, dir: &str, point: Barrier) -> Result<(), MediaError> {
        let mut state = self.alive("sync", dir)?;
        state.counts.dir_syncs += 1;
        let id = find_dir(&state, "sync", dir)?;
        let (effect, result) = state.sync(dir, point);
        state.record(
            dir,
            Op::SyncDir {
                dir: id,
                point,
                effect,
            },
        );
        result
    }

    fn lock(&self, path: &str) -> Result<DiskLock, MediaError> {
        let mut state = self.alive("lock", path)?;
        state.faults.change("lock", path)?;
        let at = slot(&state, "lock", path)?;
        let file = match state.image.entry(at.dir, &at.name) {
            Some(Node::File(file)) => file,
            Some(Node::Dir(_)) => return Err(error("lock", path, io::ErrorKind::IsADirectory)),
            None => Self::create(&mut state, path, at)?,
        };
        if state.locks.contains_key(&file) {
            return Err(MediaError::plain(MediaErrorKind::Locked, "lock", path));
        }
        state.locks.insert(file, self.process);
        state.record(path, Op::Lock);
        Ok(Box::new(Held {
            shared: Arc::clone(&self.shared),
            process: self.process,
            file,
        }))
    }
}

/// A lock that is held.
struct Held {
    shared: Arc<Mutex<State>>,
    process: u64,
    file: FileId,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = lock(&self.shared);
        if state.locks.get(&self.file) == Some(&self.process) {
            state.locks.remove(&self.file);
        }
    }
}

/// Refuses a process that was killed.
pub(crate) fn alive<'a>(
    shared: &'a Mutex<State>,
    process: u64,
    operation: &'static str,
    path: &str,
) -> Result<MutexGuard<'a, State>, MediaError> {
    let state = lock(shared);
    if state.process != process {
        let source = io::Error::other("this process was killed");
        return Err(MediaError::from_io(operation, path, source));
    }
    Ok(state)
}

fn names(state: &mut State, dir: DirId) -> &mut Dir {
    state.image.dirs.get_mut(dir)
}

fn find_dir(state: &State, operation: &'static str, path: &str) -> Result<DirId, MediaError> {
    match state.image.find(path) {
        Some(Node::Dir(dir)) => Ok(dir),
        Some(Node::File(_)) => Err(error(operation, path, io::ErrorKind::NotADirectory)),
        None => Err(error(operation, path, io::ErrorKind::NotFound)),
    }
}

/// Directory and name of `path`; the directory exists.
fn slot(state: &State, operation: &'static str, path: &str) -> Result<Slot, MediaError> {
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    if name.is_empty() {
        return Err(error(operation, path, io::ErrorKind::IsADirectory));
    }
    let dir = if dir.is_empty() {
        TOP
    } else {
        find_dir(state, operation, dir)?
    };
    Ok(Slot {
        dir,
        name: name.into(),
    })
}

/// Only relative paths of plain names stay below the top.
fn check_path(operation: &'static str, path: &str) -> Result<(), MediaError> {
    let plain = |name: &str| !matches!(name, "" | "." | "..");
    if path.is_empty() || path.split('/').all(plain) {
        return Ok(());
    }
    Err(error(operation, path, io::ErrorKind::InvalidInput))
}

pub(crate) fn error(operation: &'static str, path: &str, kind: io::ErrorKind) -> MediaError {
    MediaError::from_io(operation, path, kind.into())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
