//! An open file of a [`crate::SimDisk`]. The store uses it through `media::DiskFile`.
//!
//! Invariant: a handle follows the file, not the name, as a descriptor does: it survives renames
//! and removal.

use crate::content::LEN_MAX;
use crate::image::FileId;
use crate::record::Op;
use crate::state::{DiskState, alive, error};
use media::{Barrier, DiskFile, MediaError, ReadFrom};
use parking_lot::{Mutex, MutexGuard};
use std::io;
use std::sync::Arc;

pub(crate) struct SimFile {
    pub(crate) shared: Arc<Mutex<DiskState>>,
    pub(crate) process: u64,
    pub(crate) file: FileId,
    pub(crate) path: Arc<str>,
    pub(crate) writable: bool,
}

impl SimFile {
    fn alive(&self, operation: &'static str) -> Result<MutexGuard<'_, DiskState>, MediaError> {
        alive(&self.shared, self.process, operation, &self.path)
    }

    fn change(&self, operation: &'static str) -> Result<MutexGuard<'_, DiskState>, MediaError> {
        if !self.writable {
            return Err(error(
                operation,
                &self.path,
                io::ErrorKind::PermissionDenied,
            ));
        }
        self.alive(operation)
    }

    fn store(&self, state: &mut DiskState, offset: u64, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        state.image.files.get_mut(self.file).write(offset, data);
        state.record(&self.path, || Op::Write {
            file: self.file,
            offset,
            data: data.into(),
        });
    }
}

impl DiskFile for SimFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        let mut state = self.alive("read")?;
        state.counts.reads += 1;
        state.counts.read_bytes += into.len() as u64;
        state.faults.read(&self.path)?;
        if state.image.files.get(self.file).read(offset, into) {
            return Ok(());
        }
        Err(error("read", &self.path, io::ErrorKind::UnexpectedEof))
    }

    /// There is no cache above this disk.
    fn read_at_reported(
        &self,
        offset: u64,
        into: &mut [u8],
        _past_cache: bool,
    ) -> Result<ReadFrom, MediaError> {
        self.read_at(offset, into)?;
        Ok(ReadFrom::Device)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        let mut state = self.change("write")?;
        state.counts.writes += 1;
        state.counts.written_bytes += data.len() as u64;
        let end = offset.checked_add(data.len() as u64);
        if end.is_none_or(|end| end > LEN_MAX) {
            return Err(error("write", &self.path, io::ErrorKind::FileTooLarge));
        }
        if let Err(refused) = state.faults.write(&self.path, data.len()) {
            self.store(&mut state, offset, &data[..refused.written]);
            return Err(refused.error);
        }
        let len = state.image.files.get(self.file).len();
        let fitting = state.fitting(len, offset, data.len());
        self.store(&mut state, offset, &data[..fitting]);
        match fitting < data.len() {
            true => Err(error("write", &self.path, io::ErrorKind::StorageFull)),
            false => Ok(()),
        }
    }

    fn len(&self) -> Result<u64, MediaError> {
        let state = self.alive("stat")?;
        state.faults.any("stat", &self.path)?;
        Ok(state.image.files.get(self.file).len())
    }

    fn set_len(&self, len: u64) -> Result<(), MediaError> {
        let mut state = self.change("truncate")?;
        state.faults.change("truncate", &self.path)?;
        if len > LEN_MAX {
            return Err(error("truncate", &self.path, io::ErrorKind::FileTooLarge));
        }
        state.image.files.get_mut(self.file).set_len(len);
        state.record(&self.path, || Op::SetLen {
            file: self.file,
            len,
        });
        Ok(())
    }

    fn sync(&self, point: Barrier) -> Result<(), MediaError> {
        let mut state = self.alive("sync")?;
        state.counts.file_syncs += 1;
        let (effect, result) = state.sync(&self.path, point);
        state.record(&self.path, || Op::SyncFile {
            file: self.file,
            point,
            effect,
        });
        result
    }
}
