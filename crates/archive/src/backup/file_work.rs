//! Reads, stores and enters files, on a lane. The walker creates this work.
//!
//! ```text
//! open -> read -> store -> stat again (changed?) -> enter into the directory
//! ```
//!
//! Invariant: an entry whose file changed while it was read is marked so that the next run reads it
//! again.

use super::assemble::Slot;
use super::frozen::Frozen;
use super::kept_open::KeptOpen;
use super::reading::Reading;
use crate::filesystem::PathError;
use crate::filesystem::capture::{Captured, Directory};
use crate::filesystem::in_memory::InMemory;
use crate::filesystem::open_file::OpenFile;
use crate::ingest::{BATCH_BYTES, ByteSource, Context, Work};
use crate::observer::{FileChange, Warning, tell};
use format::recipe::ObjectRoot;
use format::tree::EntryKind;
use std::ffi::CString;
use std::sync::Arc;
use store::{Lane, RegionKind, StoreError};
use units::{OutOfRange, Part};

/// Small files are handed over in groups, so that threads do not wake each other for every file and
/// neighbours are stored together: at most this many files
const GROUP_FILES: usize = 32;
/// or this many bytes.
const GROUP_BYTES: u64 = BATCH_BYTES as u64;

/// A file that is written while it is frozen is frozen again, so often.
const FREEZING_ATTEMPTS: usize = 3;

/// Pages of a file.
type Runs = Vec<machine::PageRun>;

/// Files that one lane reads completely, one after another.
pub(super) struct FileGroup<'a> {
    files: Vec<FileWork>,
    bytes: u64,
    reading: Reading<'a>,
}

impl<'a> FileGroup<'a> {
    /// Creates an empty group.
    pub fn new(reading: Reading<'a>) -> Self {
        Self {
            files: Vec::new(),
            bytes: 0,
            reading,
        }
    }

    /// Adds a file. Returns true if the group is full.
    pub fn add(&mut self, file: FileWork) -> bool {
        self.bytes += file.captured.len;
        self.files.push(file);
        self.files.len() >= GROUP_FILES || self.bytes >= GROUP_BYTES
    }

    /// Returns true if there are no files.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

impl Work for FileGroup<'_> {
    fn run(self: Box<Self>, lane: &mut Lane, context: &Context<'_>) -> Result<(), StoreError> {
        lane.pack_in(RegionKind::Large)?;
        // One buffer for all files stays in this processor's cache.
        let longest = self.files.iter().map(FileWork::room).max().unwrap_or(0);
        let mut buffer = context.buffer(longest);
        for file in self.files {
            if context.stopped() {
                break;
            }
            file.run(&mut buffer, self.reading, lane, context)?;
        }
        context.recycle(buffer);
        Ok(())
    }
}

/// A file to read: in a group by one lane, or a large one piece by piece.
pub(super) struct FileWork {
    pub directory: Arc<Directory>,
    pub name: CString,
    pub captured: Captured,
    pub slot: Slot,
    pub in_memory: InMemory,
    /// The parent snapshot has a file of this name.
    pub is_known: bool,
    /// The file, if it was opened before its turn came and is still open.
    pub kept_open: Option<KeptOpen>,
}

impl FileWork {
    /// Opens the file in its directory.
    pub fn open(&self) -> Result<OpenFile, PathError> {
        self.directory.open_file(&self.name)
    }

    /// Returns the open file, frozen where that is wanted and possible, and its pages before the
    /// kernel read it ahead.
    pub fn opened(
        &mut self,
        frozen: Option<&Frozen>,
    ) -> Result<(OpenFile, Option<Runs>), PathError> {
        let (mut opened, runs) = match self.kept_open.take() {
            Some(kept) => kept.into_parts(),
            None => (self.open()?, None),
        };
        let Some(frozen) = frozen.filter(|_| !self.directory.is_frozen()) else {
            return Ok((opened, runs));
        };
        for _ in 0..FREEZING_ATTEMPTS {
            let device = self.captured.entry.device;
            frozen.freeze(&mut opened, &self.directory, device);
            if !opened.is_frozen() || !opened.changed_since(&self.captured)? {
                break;
            }
            // It was written after it was listed: its metadata must be of the reflink's moment.
            self.captured = self.directory.stat(&self.name)?;
            if !opened.changed_since(&self.captured)? {
                break;
            }
        }
        if opened.is_frozen() {
            frozen.add_reflink();
        }
        Ok((opened, runs))
    }

    /// Enters the file with its content, after the last byte was read.
    pub fn finish(
        self,
        opened: &OpenFile,
        content: ObjectRoot,
        sparse: bool,
        lane: &mut Lane,
        context: &Context<'_>,
    ) -> Result<(), StoreError> {
        let Self { captured, slot, .. } = self;
        let changed = opened.changed_since(&captured).unwrap_or(true);
        let mut unreadable = Vec::new();
        let mut entry = captured.entry;
        entry.xattrs = opened.xattrs(&mut unreadable);
        unreadable
            .iter()
            .for_each(|e| context.observer.path_failed(e));
        if changed {
            let warning = Warning::Changed(opened.path());
            context.observer.warning(&warning);
            // Forces the next run to read it again.
            entry.changed.nanos = entry.changed.nanos.wrapping_add(1) % 1_000_000_000;
        }
        entry.kind = EntryKind::File { content, sparse };
        let change = FileChange::of_stored(self.is_known);
        tell(context.observer, change, || opened.path());
        context.observer.add_files(1);
        slot.fill(Some(entry), lane)
    }

    /// Size of the buffer: one byte more than expected, so that growth is noticed.
    fn room(&self) -> usize {
        usize::try_from(self.captured.len).unwrap_or(0) + 1
    }

    /// Reads the file completely, stores it and enters it.
    fn run(
        mut self,
        buffer: &mut Vec<u8>,
        reading: Reading<'_>,
        lane: &mut Lane,
        context: &Context<'_>,
    ) -> Result<(), StoreError> {
        let opened = self.opened(reading.frozen);
        let room = self.room();
        let read = opened.and_then(|(opened, runs)| {
            if buffer.len() < room {
                buffer.resize(room, 0);
            }
            let fault = |e: OutOfRange| opened.failed("read", e);
            let into = buffer.part_mut(..room).map_err(fault)?;
            let mut source = reading.source(&opened, &self.captured, self.in_memory, runs);
            let mut count = source.read(0, into)?;
            source.finish();
            // The file has grown since it was listed: read to its new end.
            while count >= room {
                buffer.truncate(count);
                buffer.resize(count * 2, 0);
                let more = buffer.part_mut(count..).map_err(fault)?;
                match opened.read_at(count as u64, more)? {
                    0 => break,
                    read => count += read,
                }
            }
            Ok((opened, count))
        });
        match read {
            Err(e) => {
                context.observer.path_failed(&e);
                self.slot.fill(None, lane)
            }
            Ok((opened, count)) => {
                context.observer.has_read(count as u64);
                let content = lane.store_object(buffer.part(..count)?, false)?;
                context.observer.add_bytes(count as u64);
                self.finish(&opened, content, false, lane, context)
            }
        }
    }
}
