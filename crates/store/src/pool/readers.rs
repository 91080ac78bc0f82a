//! Processes that read a pool without its lock, and what they hold. `Pool` calls this.
//!
//! A reader creates a file of its own below `readers/`, locks it, and only then looks for the
//! newest commit. Until it has found one, its file holds every commit, afterwards that one. Garbage
//! collection calls [`Pool::held_oldest`] only after the commit that trashed something. So either
//! it sees the reader, or the reader sees that commit and needs nothing that it trashed.
//!
//! ```text
//! reader: create and lock the file -> look for the newest root -> narrow the hold
//! writer: commit to the trash      -> look at the readers      -> delete
//! ```
//!
//! Invariant: a hold lives as long as the lock on its file, which ends with the process in any
//! case. Times decide nothing. Only the pool's one writer, which has the pool's lock, tries the
//! locks of readers and removes files that no process has locked.

use chunk_store::{Result, StoreError};
use format::reader_hold::{READER_HOLD_BYTES, ReaderHold};
use media::{Disk, DiskFile, DiskLock, Media, MediaError, MediaErrorKind};
use std::sync::Arc;
use units::{Generation, PoolId, UnixNanos};

/// Directory of the files.
const READERS: &str = "readers";
/// Number of random bytes of a name.
const NAME_BYTES: usize = 8;
/// Number of names that a reader tries. It loses one only if the writer looks between its creation
/// and its lock.
const ATTEMPTS: usize = 16;

/// A living reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaderSeen {
    /// The generation that it reads. 0: unknown, so it holds everything.
    pub generation: Generation,
    /// Start of the hold. 0: unknown.
    pub since: UnixNanos,
    /// Name of the reader.
    pub label: String,
}

/// Counts of the trash that a reader keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBack {
    /// The reader.
    pub reader: ReaderSeen,
    /// Containers that were trashed after the generation that it reads.
    pub containers: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Snapshots that were forgotten after that generation.
    pub snapshots: u64,
}

/// The hold of a process that reads; it ends on drop.
pub(super) struct ReadersHold {
    disk: Arc<dyn Disk>,
    path: String,
    file: Arc<dyn DiskFile>,
    pool: PoolId,
    said: ReaderHold,
    _lock: DiskLock,
}

impl ReadersHold {
    /// Holds every commit. Fails if this process cannot write in the pool's directory.
    pub fn take(media: &Media, pool: PoolId, label: &str) -> Result<Self> {
        let disk = &media.disk;
        disk.make_dir(READERS)?;
        let mut lost = None;
        for _ in 0..ATTEMPTS {
            let mut random = [0; NAME_BYTES];
            media.random.fill(&mut random);
            let path = format!("{READERS}/{:016x}", u64::from_be_bytes(random));
            match locked(&**disk, &path) {
                Ok((lock, file)) => {
                    let said = ReaderHold {
                        generation: Generation(0),
                        since: media.clock.now(),
                        label: label.to_owned(),
                    };
                    let hold = Self {
                        disk: Arc::clone(disk),
                        path,
                        file,
                        pool,
                        said,
                        _lock: lock,
                    };
                    hold.write();
                    return Ok(hold);
                }
                Err(e) if is_passing(&e) => lost = Some(e),
                Err(e) => return Err(e.into()),
            }
        }
        let lost =
            lost.unwrap_or_else(|| MediaError::plain(MediaErrorKind::Locked, "lock", READERS));
        Err(StoreError::from(lost))
    }

    /// From now on holds only this generation.
    pub fn narrow(&mut self, generation: Generation) {
        self.said.generation = generation;
        self.write();
    }

    /// A failed write leaves a hold on everything: the lock on the file counts.
    fn write(&self) {
        let _ = self.file.write_at(0, &self.said.encode(self.pool));
    }
}

impl Drop for ReadersHold {
    fn drop(&mut self) {
        // Remove it before the lock ends: until then the name is ours.
        let _ = self.disk.remove(&self.path);
    }
}

/// Creates and locks a new file, and opens it by its name. The writer removes only files that it
/// has locked itself, so from here on the name stays.
fn locked(
    disk: &dyn Disk,
    path: &str,
) -> std::result::Result<(DiskLock, Arc<dyn DiskFile>), MediaError> {
    let lock = disk.lock(path)?;
    let file = disk.open(path, false)?;
    Ok((lock, file))
}

/// Returns true if the writer mistook the name for one of a dead process.
fn is_passing(error: &MediaError) -> bool {
    matches!(
        error.kind,
        MediaErrorKind::Locked | MediaErrorKind::NotFound
    )
}

/// Returns the living readers, and removes the files of dead ones. One thread at a time may
/// call this: a second one would mistake the first for a reader.
pub(super) fn living(disk: &dyn Disk, pool: PoolId) -> Vec<ReaderSeen> {
    let entries = match disk.list(READERS) {
        Ok(entries) => entries,
        Err(e) if e.kind == MediaErrorKind::NotFound => return Vec::new(),
        Err(e) => return vec![unknown(e.to_string())],
    };
    let is_ours = |name: &str| {
        let is_digit = |c: char| matches!(c, '0'..='9' | 'a'..='f');
        name.len() == NAME_BYTES * 2 && name.chars().all(is_digit)
    };
    let names = entries.iter().filter(|entry| is_ours(&entry.name));
    names
        .filter_map(|entry| seen(disk, &format!("{READERS}/{}", entry.name), pool))
        .collect()
}

/// Returns the reader that has this file locked. Removes the file if there is none.
fn seen(disk: &dyn Disk, path: &str, pool: PoolId) -> Option<ReaderSeen> {
    match disk.lock(path) {
        Ok(_lock) => {
            // Its process has ended. If the file cannot be removed, the next run tries again.
            let _ = disk.remove(path);
            None
        }
        Err(e) if e.kind == MediaErrorKind::Locked => {
            let seen = read(disk, path, pool);
            Some(seen.unwrap_or_else(|| unknown(format!("a process that has {path} locked"))))
        }
        Err(e) if e.kind == MediaErrorKind::NotFound => None,
        // For example another user's file. Its process may live.
        Err(e) => Some(unknown(e.to_string())),
    }
}

fn read(disk: &dyn Disk, path: &str, pool: PoolId) -> Option<ReaderSeen> {
    let mut bytes = [0; READER_HOLD_BYTES];
    disk.open_read(path).ok()?.read_at(0, &mut bytes).ok()?;
    let hold = ReaderHold::decode(&bytes, pool).ok()?;
    Some(ReaderSeen {
        generation: hold.generation,
        since: hold.since,
        label: hold.label,
    })
}

fn unknown(label: String) -> ReaderSeen {
    ReaderSeen {
        generation: Generation(0),
        since: UnixNanos(0),
        label,
    }
}
