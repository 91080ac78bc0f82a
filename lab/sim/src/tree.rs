//! `media::Disk` for [`SimDisk`]: names, directories and locks. The store calls it through the
//! trait.
//!
//! Invariant: every change of the tree is recorded as it is made, and only then; a refused
//! operation changes nothing.

use crate::disk::SimDisk;
use crate::file::SimFile;
use crate::image::{Dir, FileId, Node};
use crate::record::{Op, Slot};
use crate::state::{DiskState, alive, check_path, error, find_dir, names, slot};
use media::{Barrier, Disk, DiskEntry, DiskFile, DiskLock, MediaError, MediaErrorKind, Room};
use parking_lot::{Mutex, MutexGuard};
use std::io;
use std::sync::Arc;

impl SimDisk {
    /// Returns the state, for an operation of a living process.
    fn alive(
        &self,
        operation: &'static str,
        path: &str,
    ) -> Result<MutexGuard<'_, DiskState>, MediaError> {
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

    /// Creates a new empty file.
    fn create(state: &mut DiskState, path: &str, at: Slot) -> Result<FileId, MediaError> {
        state.counts.names += 1;
        state.faults.names("open", path)?;
        let file = state.image.files.push(Default::default());
        names(state, at.dir).insert(Arc::clone(&at.name), Node::File(file));
        state.record(path, || Op::Create { at, file });
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
        state.record(to, || Op::Rename {
            from: source,
            to: target,
            file,
        });
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
                    state.record(path, || Op::SetLen { file, len: 0 });
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
        state.record(path, || Op::Remove { at });
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
        state.record(dir, || Op::MakeDir { at, dir: id });
        Ok(true)
    }

    fn sync_dir(&self, dir: &str, point: Barrier) -> Result<(), MediaError> {
        let mut state = self.alive("sync", dir)?;
        state.counts.dir_syncs += 1;
        let id = find_dir(&state, "sync", dir)?;
        let (effect, result) = state.sync(dir, point);
        state.record(dir, || Op::SyncDir {
            dir: id,
            point,
            effect,
        });
        result
    }

    fn room(&self) -> Option<Room> {
        self.shared.lock().room()
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
        state.record(path, || Op::Lock);
        Ok(Box::new(LockGuard {
            shared: Arc::clone(&self.shared),
            process: self.process,
            file,
        }))
    }
}

/// A lock that is held.
struct LockGuard {
    shared: Arc<Mutex<DiskState>>,
    process: u64,
    file: FileId,
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if state.locks.get(&self.file) == Some(&self.process) {
            state.locks.remove(&self.file);
        }
    }
}
