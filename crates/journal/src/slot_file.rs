//! File of a slot: one on each disk that has it.
//!
//! The writer, `open` and `read` call this.
//! Invariant: a write or a sync reaches every copy, or fails.

use media::{Barrier, DiskFile, MediaError};
use std::sync::Arc;

/// The copies of a slot's file, in the order in which they are read. See the module's head.
pub(super) struct SlotFile {
    copies: Vec<Arc<dyn DiskFile>>,
    /// The first ones, whose headers are whole.
    whole: usize,
}

impl SlotFile {
    pub(super) fn new(copies: Vec<Arc<dyn DiskFile>>) -> Self {
        let whole = copies.len();
        Self { copies, whole }
    }

    /// Adds copies whose headers are damaged: their records verify or not, like others.
    pub(super) fn with_damaged(mut self, damaged: &[Arc<dyn DiskFile>]) -> Self {
        self.copies.extend_from_slice(damaged);
        self
    }

    /// Returns the number of copies whose headers are whole.
    pub(super) fn whole(&self) -> usize {
        self.whole
    }

    pub(super) fn copies(&self) -> &[Arc<dyn DiskFile>] {
        &self.copies
    }

    pub(super) fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        self.each(|file| file.write_at(offset, data))
    }

    pub(super) fn set_len(&self, len: u64) -> Result<(), MediaError> {
        self.each(|file| file.set_len(len))
    }

    pub(super) fn sync(&self, point: Barrier) -> Result<(), MediaError> {
        self.each(|file| file.sync(point))
    }

    /// Returns the length of the shortest copy, bytes.
    pub(super) fn len(&self) -> Result<u64, MediaError> {
        let lens = self.copies.iter().map(|file| file.len());
        let lens: Vec<u64> = lens.collect::<Result<_, _>>()?;
        Ok(lens.into_iter().min().unwrap_or_default())
    }

    fn each(
        &self,
        work: impl FnMut(&Arc<dyn DiskFile>) -> Result<(), MediaError>,
    ) -> Result<(), MediaError> {
        self.copies.iter().try_for_each(work)
    }
}
