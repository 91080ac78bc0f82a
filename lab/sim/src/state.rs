//! State of a simulated disk: the volatile tree, the log, locks, faults. `disk`, `tree` and `file`
//! use it.
//!
//! Invariant: one lock protects all of it, so that the log has the order in which operations took
//! effect.

use crate::fault::{Faults, OperationCounts};
use crate::image::{Dir, DirId, FileId, Image, Node, TOP};
use crate::record::{Effect, Entry, Op, Slot};
use media::{Barrier, MediaError, Room};
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

pub(crate) struct DiskState {
    pub(crate) image: Image,
    pub(crate) base: Image,
    pub(crate) log: Arc<Vec<Entry>>,
    pub(crate) recording: bool,
    pub(crate) process: u64,
    /// Operations until the process dies.
    pub(crate) dies_after: Option<u64>,
    /// The process that has each lock file.
    pub(crate) locks: BTreeMap<FileId, u64>,
    pub(crate) without: BTreeSet<Barrier>,
    pub(crate) faults: Faults,
    pub(crate) counts: OperationCounts,
    /// Reported free space.
    pub(crate) room: Option<Room>,
    /// Maximum bytes of all files together.
    pub(crate) capacity: Option<u64>,
}

impl DiskState {
    pub(crate) fn new(image: Image, recording: bool) -> Self {
        Self {
            base: image.clone(),
            image,
            log: Arc::default(),
            recording,
            process: 0,
            dies_after: None,
            locks: BTreeMap::new(),
            without: BTreeSet::new(),
            room: None,
            capacity: None,
            faults: Faults::default(),
            counts: OperationCounts::default(),
        }
    }

    /// Bytes of all files that have a name.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.image.files().iter().map(|(_, len)| len).sum()
    }

    /// Free space.
    pub(crate) fn room(&self) -> Option<Room> {
        let of_capacity = |total_bytes: u64| Room {
            free_bytes: total_bytes.saturating_sub(self.used_bytes()),
            total_bytes,
            ..Room::default()
        };
        self.room.or_else(|| self.capacity.map(of_capacity))
    }

    /// Returns the number of bytes that fit, of a write at `offset` to a file of `len` bytes.
    pub(crate) fn fitting(&self, len: u64, offset: u64, bytes: usize) -> usize {
        let Some(room) = self.room().filter(|_| self.capacity.is_some()) else {
            return bytes;
        };
        let end = len.max(offset).saturating_add(room.free_bytes);
        bytes.min(usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX))
    }

    /// An operation took effect. `op` is called only if it is recorded.
    pub(crate) fn record(&mut self, path: &str, op: impl FnOnce() -> Op) {
        match &mut self.dies_after {
            Some(0 | 1) => self.die(),
            Some(more) => *more -= 1,
            None => {}
        }
        if self.recording {
            Arc::make_mut(&mut self.log).push(Entry {
                op: op(),
                path: path.into(),
            });
        }
    }

    /// Ends the process: its locks are released, its operations fail.
    pub(crate) fn die(&mut self) {
        self.process += 1;
        self.dies_after = None;
        self.locks.clear();
    }

    /// Returns the effect of a sync at `point`, and its result for the caller.
    pub(crate) fn sync(&mut self, path: &str, point: Barrier) -> (Effect, Result<(), MediaError>) {
        match self.faults.sync(path) {
            Err(e) => (Effect::Dropped, Err(e)),
            Ok(()) if self.without.contains(&point) => (Effect::LeftOut, Ok(())),
            Ok(()) => (Effect::Durable, Ok(())),
        }
    }
}

/// Refuses operations of a killed process.
pub(crate) fn alive<'a>(
    shared: &'a Mutex<DiskState>,
    process: u64,
    operation: &'static str,
    path: &str,
) -> Result<MutexGuard<'a, DiskState>, MediaError> {
    let state = shared.lock();
    if state.process != process {
        let source = io::Error::other("this process was killed");
        return Err(MediaError::from_io(operation, path, source));
    }
    Ok(state)
}

pub(crate) fn names(state: &mut DiskState, dir: DirId) -> &mut Dir {
    state.image.dirs.get_mut(dir)
}

pub(crate) fn find_dir(
    state: &DiskState,
    operation: &'static str,
    path: &str,
) -> Result<DirId, MediaError> {
    match state.image.find(path) {
        Some(Node::Dir(dir)) => Ok(dir),
        Some(Node::File(_)) => Err(error(operation, path, io::ErrorKind::NotADirectory)),
        None => Err(error(operation, path, io::ErrorKind::NotFound)),
    }
}

/// Returns directory and name of `path`; the directory exists.
pub(crate) fn slot(
    state: &DiskState,
    operation: &'static str,
    path: &str,
) -> Result<Slot, MediaError> {
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
pub(crate) fn check_path(operation: &'static str, path: &str) -> Result<(), MediaError> {
    let plain = |name: &str| !matches!(name, "" | "." | "..");
    if path.is_empty() || path.split('/').all(plain) {
        return Ok(());
    }
    Err(error(operation, path, io::ErrorKind::InvalidInput))
}

pub(crate) fn error(operation: &'static str, path: &str, kind: io::ErrorKind) -> MediaError {
    MediaError::from_io(operation, path, kind.into())
}
