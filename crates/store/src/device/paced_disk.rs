//! A disk whose requests take their turns.
//!
//! Invariant: what is read and written is what the disk below reads and writes; only when differs. Called
//! as any disk: by blobs (containers), and by whoever has files (journal, index).

use super::pieces::PIECE_BYTES;
use super::{RequestQueue, flow_of};
use media::{Asker, Barrier, Disk, DiskEntry, DiskFile, DiskLock, MediaError, Room};
use qos::Direction;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A read that begins so far behind the end of the one before it goes on with it: the system has read
/// ahead, or skips as cheaply.
const SKIPPED_BYTES: u64 = 128 << 10;

/// Whether writes take turns too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// They do, where their bytes are synced: what is written is large and nobody waits for it. Those of
    /// maintenance in pieces that are not left to the sync.
    TakeTurns,
    /// They pass, and are counted: a client waits for them.
    Pass,
}

/// See the module's head.
pub struct PacedDisk {
    below: Arc<dyn Disk>,
    queue: Arc<dyn RequestQueue>,
    writes: Writes,
}

impl PacedDisk {
    /// In front of a disk.
    pub fn new(below: Arc<dyn Disk>, queue: Arc<dyn RequestQueue>, writes: Writes) -> Self {
        Self {
            below,
            queue,
            writes,
        }
    }

    fn paced(&self, below: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(PacedFile {
            below,
            queue: Arc::clone(&self.queue),
            writes: self.writes,
            read_to: AtomicU64::new(0),
            unsynced_bytes: AtomicU64::new(0),
        })
    }
}

impl Disk for PacedDisk {
    fn open(&self, path: &str, create: bool) -> Result<Arc<dyn DiskFile>, MediaError> {
        Ok(self.paced(self.below.open(path, create)?))
    }

    fn create_new(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        Ok(self.paced(self.below.create_new(path)?))
    }

    fn open_read(&self, path: &str) -> Result<Arc<dyn DiskFile>, MediaError> {
        Ok(self.paced(self.below.open_read(path)?))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), MediaError> {
        self.below.rename(from, to)
    }

    fn rename_new(&self, from: &str, to: &str) -> Result<(), MediaError> {
        self.below.rename_new(from, to)
    }

    fn remove(&self, path: &str) -> Result<(), MediaError> {
        self.below.remove(path)
    }

    fn list(&self, dir: &str) -> Result<Vec<DiskEntry>, MediaError> {
        self.below.list(dir)
    }

    fn make_dir(&self, dir: &str) -> Result<bool, MediaError> {
        self.below.make_dir(dir)
    }

    fn sync_dir(&self, dir: &str, point: Barrier) -> Result<(), MediaError> {
        self.below.sync_dir(dir, point)
    }

    fn lock(&self, path: &str) -> Result<DiskLock, MediaError> {
        self.below.lock(path)
    }

    fn is_paced(&self) -> bool {
        self.writes == Writes::TakeTurns && flow_of(Asker::current()).is_maintenance()
    }

    fn room(&self) -> Option<Room> {
        self.below.room()
    }
}

struct PacedFile {
    below: Arc<dyn DiskFile>,
    queue: Arc<dyn RequestQueue>,
    writes: Writes,
    /// Where the last read ended.
    read_to: AtomicU64,
    unsynced_bytes: AtomicU64,
}

impl PacedFile {
    fn read(
        &self,
        offset: u64,
        into: &mut [u8],
        read: impl FnOnce(&mut [u8]) -> Result<(), MediaError>,
    ) -> Result<(), MediaError> {
        let bytes = into.len() as u64;
        let end = offset.saturating_add(bytes);
        let before = self.read_to.swap(end, Ordering::Relaxed);
        let goes_on = (before..=before.saturating_add(SKIPPED_BYTES)).contains(&offset);
        let turn = self
            .queue
            .enter(Asker::current(), Direction::Read, goes_on, bytes);
        let done = read(into);
        drop(turn);
        done
    }

    fn write_pieces(&self, asker: Asker, mut offset: u64, data: &[u8]) -> Result<(), MediaError> {
        let is_long = data.len() > PIECE_BYTES;
        for piece in data.chunks(PIECE_BYTES) {
            let bytes = piece.len() as u64;
            if is_long {
                self.queue.next_piece(flow_of(asker), bytes);
            }
            self.queue.note(asker, Direction::Write, bytes);
            self.below.write_at_past_cache(offset, piece)?;
            offset = offset.saturating_add(bytes);
        }
        Ok(())
    }
}

impl DiskFile for PacedFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        self.read(offset, into, |into| self.below.read_at(offset, into))
    }

    fn read_at_past_cache(&self, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        self.read(offset, into, |into| {
            self.below.read_at_past_cache(offset, into)
        })
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        let bytes = data.len() as u64;
        let asker = Asker::current();
        match self.writes {
            Writes::TakeTurns if flow_of(asker).is_maintenance() => {
                return self.write_pieces(asker, offset, data);
            }
            Writes::TakeTurns => drop(self.unsynced_bytes.fetch_add(bytes, Ordering::Relaxed)),
            Writes::Pass => self.queue.note(asker, Direction::Write, bytes),
        }
        self.below.write_at(offset, data)
    }

    fn len(&self) -> Result<u64, MediaError> {
        self.below.len()
    }

    fn set_len(&self, len: u64) -> Result<(), MediaError> {
        self.below.set_len(len)
    }

    fn sync(&self, point: Barrier) -> Result<(), MediaError> {
        let asker = Asker::current();
        if self.writes == Writes::Pass || flow_of(asker).is_maintenance() {
            return self.below.sync(point);
        }
        let bytes = self.unsynced_bytes.swap(0, Ordering::Relaxed);
        let turn = self.queue.enter(asker, Direction::Write, true, bytes);
        let done = self.below.sync(point);
        drop(turn);
        done
    }
}
