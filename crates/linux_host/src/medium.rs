//! Reads a file from its medium, not from the page cache, and leaves in memory what was there.
//! `quintet host scrub` reads with this.
//!
//! ```text
//! Way::Direct   direct I/O: past the page cache
//! Way::Dropped  clean pages are dropped, the range is read, what was not in memory before is
//!               dropped again
//! Way::Memory   the file system is memory, or shows no pages: nothing proves a medium
//! ```
//!
//! Invariant: bytes that are not in [`MediumRead::unproven`] came from the file system's device (or
//! server) after the call began. No dirty page is written or dropped by [`Way::Dropped`]; callers
//! leave files with dirty pages alone, because direct I/O writes them first.

use crate::extents::extents;
use format::tree::Timestamp;
use machine::{PAGE_BYTES, PageRun, cached, is_memory, release, runs};
use rustix::fs::{Advice, AtFlags, OFlags, SeekFrom, StatxFlags};
use rustix::io::{Errno, ReadWriteFlags};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};

/// Alignment of direct I/O where the system does not say it: no device has larger sectors.
const ALIGN_BYTES: u64 = 4096;
/// Compressed extents of btrfs come into memory as a whole.
const COMPRESSED_BYTES: u64 = 128 << 10;

/// How the bytes of a file are read from the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Direct I/O.
    Direct,
    /// Through the page cache, after its clean pages were dropped.
    Dropped,
    /// From memory: the file system has no medium, or its pages cannot be dropped.
    Memory,
}

/// Bytes of a range.
#[derive(Debug)]
pub struct MediumRead<'m> {
    /// The bytes; fewer than requested only at the end of the file.
    pub bytes: &'m [u8],
    /// Ranges of the file that stayed in memory, so that these bytes prove nothing.
    pub unproven: Vec<Range<u64>>,
}

/// State of a file that is written, or whose metadata are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    /// Inode.
    pub inode: u64,
    /// Length, bytes.
    pub len: u64,
    /// Modification time.
    pub modified: Timestamp,
    /// Status change time, which no program can set.
    pub changed: Timestamp,
}

/// An open file. See the module's head.
#[derive(Debug)]
pub struct Medium {
    file: File,
    way: Way,
    align: u64,
    /// Flags of the open file without `O_DIRECT`.
    flags: OFlags,
    is_direct_now: bool,
    buffer: Vec<u8>,
}

impl Medium {
    /// Finds the way for an open file. Nothing is read.
    pub fn of(file: File) -> io::Result<Self> {
        let flags = rustix::fs::fcntl_getfl(&file)?;
        let mut medium = Self {
            file,
            way: Way::Memory,
            align: ALIGN_BYTES,
            flags: flags - OFlags::DIRECT,
            is_direct_now: false,
            buffer: Vec::new(),
        };
        if is_memory(&medium.file)? {
            return Ok(medium);
        }
        medium.way = match medium.direct_align()? {
            Some(align) if medium.set_direct(true).is_ok() => {
                medium.align = align;
                Way::Direct
            }
            _ => Way::Dropped,
        };
        if medium.way == Way::Dropped {
            medium.expect_random();
        }
        Ok(medium)
    }

    /// The way that reads go now.
    pub fn way(&self) -> Way {
        self.way
    }

    /// Returns the state that the kernel changes when the file is written or its metadata are set.
    pub fn state(&self) -> io::Result<FileState> {
        let now = self.file.metadata()?;
        let time = |seconds, nanos: i64| Timestamp {
            seconds,
            nanos: u32::try_from(nanos).unwrap_or(0),
        };
        Ok(FileState {
            inode: now.ino(),
            len: now.len(),
            modified: time(now.mtime(), now.mtime_nsec()),
            changed: time(now.ctime(), now.ctime_nsec()),
        })
    }

    /// The open file, to ask about it.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the alignment for direct I/O; `None` if the file system would read the file through
    /// the page cache all the same.
    fn direct_align(&self) -> io::Result<Option<u64>> {
        let flags = StatxFlags::DIOALIGN;
        if let Ok(found) = rustix::fs::statx(&self.file, c"", AtFlags::EMPTY_PATH, flags)
            && found.stx_mask & flags.bits() != 0
        {
            let align = u64::from(found.stx_dio_offset_align.max(found.stx_dio_mem_align));
            return Ok((align > 0).then_some(align.max(ALIGN_BYTES)));
        }
        // btrfs does not say it: compressed and inline extents go through the page cache. File
        // systems without FIEMAP have neither.
        let mut is_placed = true;
        let len = self.file.metadata()?.len();
        let _ = extents(&self.file, 0..len, &mut |extent| {
            is_placed &= !extent.is_encoded() && !extent.is_inline();
        });
        Ok(is_placed.then_some(ALIGN_BYTES))
    }

    fn set_direct(&mut self, direct: bool) -> io::Result<()> {
        if self.is_direct_now != direct {
            let direct_flag = OFlags::DIRECT;
            let flags = match direct {
                true => self.flags | direct_flag,
                false => self.flags,
            };
            rustix::fs::fcntl_setfl(&self.file, flags)?;
            self.is_direct_now = direct;
        }
        Ok(())
    }

    /// Keeps the kernel from reading ahead what would have to be dropped. A hint.
    fn expect_random(&self) {
        let _ = rustix::fs::fadvise(&self.file, 0, None, Advice::Random);
    }

    /// Reads a range from the medium. Fails with `EIO` if a part of it cannot be read.
    pub fn read(&mut self, range: Range<u64>) -> io::Result<MediumRead<'_>> {
        match self.way {
            Way::Direct => self.read_direct(range),
            Way::Dropped => self.read_dropped(range),
            Way::Memory => {
                let count = self.fill(&range)?;
                let all = range.start..range.start + count as u64;
                let unproven = std::iter::once(all).filter(|all| !all.is_empty());
                Ok(self.result(&range, range.start, count, unproven.collect()))
            }
        }
    }

    fn read_direct(&mut self, range: Range<u64>) -> io::Result<MediumRead<'_>> {
        let align = self.align;
        let start = range.start / align * align;
        let end = range.end.next_multiple_of(align);
        self.set_direct(true)?;
        let before = cached(&self.file, start, end - start);
        let count = match self.fill(&(start..end)) {
            Err(e) if e.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                // A file system that accepts the flag and not the request.
                self.give_up_direct()?;
                return self.read_dropped(range);
            }
            count => count?,
        };
        if let (Ok(before), Ok(after)) = (before, cached(&self.file, start, end - start))
            && before.cached == 0
            && after.cached > 0
        {
            // The request went through the page cache, or another reader came. These bytes came
            // from the medium in either case: nothing was in memory.
            self.give_up_direct()?;
            let _ = release(&self.file, start, Some(end));
        }
        Ok(self.result(&range, start, count, Vec::new()))
    }

    fn give_up_direct(&mut self) -> io::Result<()> {
        self.set_direct(false)?;
        self.way = Way::Dropped;
        self.expect_random();
        Ok(())
    }

    fn read_dropped(&mut self, range: Range<u64>) -> io::Result<MediumRead<'_>> {
        self.set_direct(false)?;
        let start = range.start / COMPRESSED_BYTES * COMPRESSED_BYTES;
        let end = range.end.next_multiple_of(COMPRESSED_BYTES);
        // Without an answer from the system nothing was dropped.
        let seen = |file: &File| runs(file, &(start..end));
        let before = seen(&self.file);
        let is_asked = before.is_ok() && release(&self.file, start, Some(end)).is_ok();
        let stayed = match seen(&self.file) {
            Ok(stayed) if is_asked => stayed,
            _ => vec![PageRun {
                start,
                end,
                cached: true,
            }],
        };
        // Pages that were in memory beside the range come back too.
        let is_beside =
            |run: &PageRun| run.cached && (run.start < range.start || run.end > range.end);
        let whole = match before.iter().flatten().any(is_beside) {
            true => start..end,
            false => range.clone(),
        };
        let count = self.fill(&whole)?;
        let read_end = whole.start.saturating_add(count as u64);
        // Another reader may have brought pages in since: those came from the medium too.
        let overlap =
            |run: &PageRun| run.start.max(range.start)..run.end.min(range.end).min(read_end);
        let stayed = stayed.iter().filter(|run| run.cached).map(overlap);
        let unproven = stayed.filter(|range| !range.is_empty()).collect();
        for run in before.iter().flatten().filter(|run| !run.cached) {
            let _ = release(&self.file, run.start, Some(run.end));
        }
        Ok(self.result(&range, whole.start, count, unproven))
    }

    /// Reads a range if all of it is in memory, and starts no I/O; else returns `None`.
    pub fn read_in_memory(&mut self, range: Range<u64>) -> io::Result<Option<&[u8]>> {
        // Even a read that must not wait makes the kernel read ahead, so this asks first.
        let first = range.start / PAGE_BYTES * PAGE_BYTES;
        let bytes = range.end.next_multiple_of(PAGE_BYTES) - first;
        if !cached(&self.file, first, bytes).is_ok_and(|found| found.cached * PAGE_BYTES >= bytes) {
            return Ok(None);
        }
        self.set_direct(false)?;
        let wanted = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        let mut done = 0;
        while let Some(rest) = self.buffer.get_mut(done..wanted).filter(|r| !r.is_empty()) {
            let at = range.start + done as u64;
            let into = &mut [IoSliceMut::new(rest)];
            match rustix::io::preadv2(&self.file, into, at, ReadWriteFlags::NOWAIT) {
                Ok(0) | Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::INVAL) => return Ok(None),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(self.buffer.get(..wanted))
    }

    /// Returns the first byte from `at` on, before `end`, that is not in a hole; `end` if there is
    /// none. Everything is data where the file system does not say it.
    pub fn next_data(&self, at: u64, end: u64) -> io::Result<u64> {
        match rustix::fs::seek(&self.file, SeekFrom::Data(at)) {
            Ok(data) => Ok(data.clamp(at, end)),
            Err(Errno::NXIO) => Ok(end),
            Err(Errno::INVAL | Errno::NOTSUP) => Ok(at),
            Err(e) => Err(e.into()),
        }
    }

    /// Reads a range into the buffer, behind its first aligned byte. Returns the number of bytes,
    /// fewer only at the end of the file.
    fn fill(&mut self, range: &Range<u64>) -> io::Result<usize> {
        let align = usize::try_from(self.align).map_err(io::Error::other)?;
        let wanted = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
        if self.buffer.len() < wanted + align {
            self.buffer.resize(wanted + align, 0);
        }
        let (skip, is_direct) = (self.skip(), self.is_direct_now);
        let mut done = 0;
        while let Some(rest) = self.buffer.get_mut(skip + done..skip + wanted)
            && !rest.is_empty()
        {
            match self.file.read_at(rest, range.start + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
            // Direct reads end within a block only at the end of the file.
            if is_direct && done % align != 0 {
                break;
            }
        }
        Ok(done)
    }

    /// Where the buffer has its first aligned byte. It does not move until the buffer grows.
    fn skip(&self) -> usize {
        match self.buffer.as_ptr().align_offset(self.align as usize) {
            usize::MAX => 0,
            skip => skip,
        }
    }

    /// Returns the bytes of `range` after `count` bytes were read from `start` on.
    fn result(
        &self,
        range: &Range<u64>,
        start: u64,
        count: usize,
        unproven: Vec<Range<u64>>,
    ) -> MediumRead<'_> {
        let before = (range.start - start) as usize;
        let have = count.saturating_sub(before);
        let have = have.min((range.end - range.start) as usize);
        let from = self.skip() + before;
        let bytes = self.buffer.get(from..from + have).unwrap_or_default();
        MediumRead { bytes, unproven }
    }
}

#[cfg(test)]
mod tests;
