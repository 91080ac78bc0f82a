//! Processes that read a pool without its lock, and what they hold.
//!
//! A reader makes a file of its own below `readers/`, locks it, and only then looks for the newest
//! commit; until it has found one its file says that it holds every commit, afterwards that one. The
//! collector asks for holds with [`Pool::held_oldest`] when the commit by which something came into
//! the trash is there already. So either it sees the reader, or the reader sees that commit and needs
//! nothing of what is in the trash by it.
//!
//! Invariant: a hold lives as long as the lock on its file, which goes with the process however that
//! ends; times decide nothing. Only the pool's one writer, which has the pool's lock, tries the locks of
//! others and removes files that nobody has locked. Called by `Pool`.

use super::Pool;
use chunk_store::{Result, StoreError};
use format::reader_hold::{READER_HOLD_BYTES, ReaderHold};
use media::{Disk, DiskFile, DiskLock, Media, MediaError, MediaErrorKind};
use parking_lot::Mutex;
use std::sync::Arc;
use units::{Generation, PoolId, UnixNanos};

/// The directory of the files.
const READERS: &str = "readers";
/// Random bytes of a name.
const NAME_BYTES: usize = 8;
/// Names that a reader tries: it loses one only when the writer looks in the instant between making
/// and locking it.
const ATTEMPTS: usize = 16;

/// A reader that lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaderSeen {
    /// The commit that it reads; 0 when that is not known: then everything is held.
    pub generation: Generation,
    /// Since when; 0 when that is not known.
    pub since: UnixNanos,
    /// Who it is.
    pub label: String,
}

/// What stays in the trash while a reader lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBack {
    /// Who needs it.
    pub reader: ReaderSeen,
    /// Containers that came into the trash after the commit that it reads.
    pub containers: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Snapshots that were forgotten after that commit.
    pub snapshots: u64,
}

/// Keeps what one commit reaches, for a process that reads, until it is dropped.
pub(super) struct ReadersHold {
    disk: Arc<dyn Disk>,
    path: String,
    file: Arc<dyn DiskFile>,
    pool: PoolId,
    said: ReaderHold,
    _lock: DiskLock,
}

impl ReadersHold {
    /// Holds every commit. An error when the pool cannot be written to by this process.
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

    /// From now on holds this commit only.
    pub fn narrow(&mut self, generation: Generation) {
        self.said.generation = generation;
        self.write();
    }

    /// What cannot be written holds everything: the file is locked, and that is what counts.
    fn write(&self) {
        let _ = self.file.write_at(0, &self.said.encode(self.pool));
    }
}

impl Drop for ReadersHold {
    fn drop(&mut self) {
        // Before the lock goes: the name is nobody else's.
        let _ = self.disk.remove(&self.path);
    }
}

/// A new file, locked, and proof that its name still leads to it: the writer removes only what it has
/// locked itself, so from here on it cannot.
fn locked(
    disk: &dyn Disk,
    path: &str,
) -> std::result::Result<(DiskLock, Arc<dyn DiskFile>), MediaError> {
    let lock = disk.lock(path)?;
    let file = disk.open(path, false)?;
    Ok((lock, file))
}

/// The writer took the name for one that a dead process had left.
fn is_passing(error: &MediaError) -> bool {
    matches!(
        error.kind,
        MediaErrorKind::Locked | MediaErrorKind::NotFound
    )
}

impl Pool {
    /// Why this process, which reads, holds nothing; `None` when it does, or has the pool's lock.
    pub fn unheld(&self) -> Option<&str> {
        self.unheld.as_deref()
    }

    /// Readers in other processes, and those of this one that read past its own pool. Empty unless
    /// this process has the pool's lock: nobody else may ask.
    pub fn readers(&self) -> Vec<ReaderSeen> {
        if !self.is_writable() {
            return Vec::new();
        }
        let _alone = self.probing.lock();
        let disk = &*self.media.disk;
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
            .filter_map(|entry| self.seen(&format!("{READERS}/{}", entry.name)))
            .collect()
    }

    /// Readers that keep something in the trash, whether its time there is over or not.
    pub fn held_back_by_readers(&self) -> Result<Vec<HeldBack>> {
        let readers = self.readers();
        if readers.is_empty() {
            return Ok(Vec::new());
        }
        let (forgotten, containers) = self.trash()?;
        let held = readers.into_iter().map(|reader| {
            let kept = containers.iter().filter(|c| c.since.by > reader.generation);
            let snapshots = forgotten.iter().filter(|f| f.since.by > reader.generation);
            HeldBack {
                containers: kept.clone().count() as u64,
                bytes: kept.map(|c| c.entry.blob_bytes).sum(),
                snapshots: snapshots.count() as u64,
                reader,
            }
        });
        Ok(held.filter(|h| h.containers + h.snapshots > 0).collect())
    }

    /// The reader that has this file; removes it when there is none.
    fn seen(&self, path: &str) -> Option<ReaderSeen> {
        let disk = &*self.media.disk;
        match disk.lock(path) {
            Ok(_lock) => {
                // Its process is gone. If the file cannot be removed, the next run tries again.
                let _ = disk.remove(path);
                None
            }
            Err(e) if e.kind == MediaErrorKind::Locked => {
                let seen = read(disk, path, self.config.pool);
                Some(seen.unwrap_or_else(|| unknown(format!("a process that has {path} locked"))))
            }
            Err(e) if e.kind == MediaErrorKind::NotFound => None,
            // Another user's, for one: it may live.
            Err(e) => Some(unknown(e.to_string())),
        }
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

/// Taken while one thread tries the locks of readers: a second one would take the first for a reader.
pub(super) type Probing = Mutex<()>;
