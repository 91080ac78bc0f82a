//! Bytes of a slot for replay: read through a window, and around blocks that the device cannot
//! read.
//!
//! `open` and `replay` call this.
//! Invariant: bytes past the end of the file and unreadable blocks read as zeroes, which never
//! verify. Unreadable blocks are recorded.

use chunk_store::Result;
use format::journal::BLOCK_BYTES;
use media::{DiskFile, MediaErrorKind};
use std::sync::Arc;

/// Window of a reader that reads the whole slot, bytes.
pub(super) const WINDOW_BYTES: usize = 1 << 20;

/// A slot's bytes. See the module's head.
pub(super) struct SlotBytes {
    file: Arc<dyn DiskFile>,
    /// Size of the file, bytes.
    len: u64,
    window: Vec<u8>,
    window_bytes: usize,
    start: u64,
    /// Offsets of unreadable blocks.
    unreadable: Vec<u64>,
}

impl SlotBytes {
    /// Creates a reader that reads `window_bytes` at once.
    pub(super) fn new(file: Arc<dyn DiskFile>, window_bytes: usize) -> Result<Self> {
        Ok(Self {
            len: file.len()?,
            file,
            window: Vec::new(),
            window_bytes,
            start: 0,
            unreadable: Vec::new(),
        })
    }

    /// Returns `len` bytes at `offset`.
    pub(super) fn get(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        let inside = offset
            .checked_sub(self.start)
            .and_then(|n| usize::try_from(n).ok());
        let covered = inside.is_some_and(|n| n + len <= self.window.len());
        if !covered {
            self.load(offset - offset % BLOCK_BYTES as u64, len)?;
        }
        let from = usize::try_from(offset.saturating_sub(self.start)).unwrap_or(usize::MAX);
        let bytes = self.window.get(from..).and_then(|rest| rest.get(..len));
        Ok(bytes.unwrap_or_default())
    }

    /// Returns true if a block in this range could not be read.
    pub(super) fn is_unreadable(&self, offset: u64, end: u64) -> bool {
        let block = BLOCK_BYTES as u64;
        self.unreadable
            .iter()
            .any(|at| *at < end && offset < at.saturating_add(block))
    }

    fn load(&mut self, start: u64, len: usize) -> Result<()> {
        let wanted = (len + BLOCK_BYTES).next_multiple_of(BLOCK_BYTES);
        let wanted = wanted.max(self.window_bytes);
        self.window.clear();
        self.window.resize(wanted, 0);
        self.start = start;
        let there = self.len.saturating_sub(start).min(wanted as u64) as usize;
        let Some(there) = self.window.get_mut(..there).filter(|w| !w.is_empty()) else {
            return Ok(());
        };
        match self.file.read_at(start, there) {
            Ok(()) => return Ok(()),
            Err(e) if e.kind == MediaErrorKind::Io => {}
            Err(e) => return Err(e.into()),
        }
        // Read block by block, to skip the bad ones.
        let mut offset = start;
        for block in there.chunks_mut(BLOCK_BYTES) {
            match self.file.read_at(offset, block) {
                Ok(()) => {}
                Err(e) if e.kind == MediaErrorKind::Io => {
                    block.fill(0);
                    if !self.unreadable.contains(&offset) {
                        self.unreadable.push(offset);
                    }
                }
                Err(e) => return Err(e.into()),
            }
            offset += BLOCK_BYTES as u64;
        }
        Ok(())
    }
}
