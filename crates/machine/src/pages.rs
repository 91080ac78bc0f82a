//! Which pages of an open file are in memory, and which of them are dirty, by `cachestat`.
//! `scan`, backups and the program call this.
//!
//! Invariant: asking starts no I/O and brings no page into memory. Only [`release`] takes pages out
//! of it, and never from a range with a dirty page; only [`fetch`] brings some in.

use crate::sys;
use rustix::fs::Advice;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;

/// Bytes of a page of the page cache.
pub const PAGE_BYTES: u64 = 4096;

/// Pages of a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    /// In memory.
    pub cached: u64,
    /// In memory and newer than on the disk, without those that are being written.
    pub dirty: u64,
}

/// Counts pages in memory of a range; `bytes` of 0 means to the end of the file.
pub fn cached(file: &File, offset: u64, bytes: u64) -> io::Result<Pages> {
    let counts = sys::cachestat(file, offset, bytes)?;
    Ok(Pages {
        cached: counts.cached,
        dirty: counts.dirty,
    })
}

/// Neighbouring pages that are all in memory, or all not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRun {
    /// First byte, a multiple of [`PAGE_BYTES`].
    pub start: u64,
    /// The byte behind the last, a multiple of [`PAGE_BYTES`].
    pub end: u64,
    /// In memory.
    pub cached: bool,
}

impl PageRun {
    /// Pages of a range, none of which is in memory.
    pub fn missing(range: &Range<u64>) -> Self {
        Self {
            start: range.start / PAGE_BYTES * PAGE_BYTES,
            end: range.end.next_multiple_of(PAGE_BYTES),
            cached: false,
        }
    }
}

/// Divides a range of bytes, whose start is a multiple of [`PAGE_BYTES`], into runs. It halves
/// parts that are neither all in memory nor all not: one call for a range with a single run.
pub fn runs(file: &File, range: &Range<u64>) -> io::Result<Vec<PageRun>> {
    let mut runs = Vec::new();
    let first = range.start / PAGE_BYTES;
    let pages = range.end.div_ceil(PAGE_BYTES).saturating_sub(first);
    if pages > 0 {
        divide(file, first, pages, &mut runs)?;
    }
    Ok(runs)
}

fn divide(file: &File, first: u64, pages: u64, runs: &mut Vec<PageRun>) -> io::Result<()> {
    let start = first * PAGE_BYTES;
    let count = cached(file, start, pages * PAGE_BYTES)?.cached;
    if count > 0 && count < pages {
        let half = pages.next_power_of_two() / 2;
        divide(file, first, half, runs)?;
        return divide(file, first + half, pages - half, runs);
    }
    let (end, cached) = (start + pages * PAGE_BYTES, count > 0);
    match runs.last_mut() {
        Some(last) if last.cached == cached => last.end = end,
        _ => runs.push(PageRun { start, end, cached }),
    }
    Ok(())
}

/// Takes the pages of a range out of memory. `end` of `None`: to the end of the file. Does nothing
/// if one of them is dirty or being written. Pages that a process has mapped stay. Returns the
/// number of pages that the range had in memory.
///
/// It asks first: where the system shows no pages (overlay file systems, whose pages belong to the
/// file below), it drops none.
pub fn release(file: &File, start: u64, end: Option<u64>) -> io::Result<u64> {
    let bytes = end.map_or(0, |end| end.saturating_sub(start));
    let counts = sys::cachestat(file, start, bytes)?;
    if counts.cached == 0 || counts.dirty > 0 || counts.written_back > 0 {
        return Ok(0);
    }
    rustix::fs::fadvise(file, start, NonZeroU64::new(bytes), Advice::DontNeed)?;
    Ok(counts.cached)
}

/// Has the system read a range into memory, without waiting for it.
pub fn fetch(file: &File, start: u64, end: u64) -> io::Result<()> {
    let bytes = NonZeroU64::new(end.saturating_sub(start));
    Ok(rustix::fs::fadvise(file, start, bytes, Advice::WillNeed)?)
}

/// Returns how many pages of a file are newer than on the disk, or are being written to it.
pub fn unwritten(file: &File) -> io::Result<u64> {
    let counts = sys::cachestat(file, 0, 0)?;
    Ok(counts.dirty + counts.written_back)
}

const TMPFS: u64 = 0x0102_1994;
const RAMFS: u64 = 0x8584_58F6;
const OVERLAY: u64 = 0x794C_7630;

/// Returns true on file systems that are memory themselves (tmpfs, ramfs).
pub fn is_memory(file: &File) -> io::Result<bool> {
    Ok([TMPFS, RAMFS].contains(&magic(file)?))
}

/// Returns true if the pages of an open file say which of its bytes need no device: not on file
/// systems that are memory themselves (tmpfs, ramfs), nor on overlays, whose pages belong to the
/// file below.
pub fn tells(file: &File) -> io::Result<bool> {
    Ok(![TMPFS, RAMFS, OVERLAY].contains(&magic(file)?))
}

/// The field's width depends on the architecture; the numbers have 32 bits.
fn magic(file: &File) -> io::Result<u64> {
    Ok(rustix::fs::fstatfs(file)?.f_type as u64 & 0xFFFF_FFFF)
}

/// Present and dirty pages of a chunk of 64 pages, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkState {
    /// Pages in memory.
    pub present: u64,
    /// Dirty pages.
    pub dirty: u64,
}

impl ChunkState {
    /// Nothing is in memory.
    pub const EMPTY: Self = Self {
        present: 0,
        dirty: 0,
    };
}

/// Visits the chunks of a file that have pages in memory. It halves ranges that are neither empty
/// nor full, so it asks about single pages only where the state changes.
pub fn chunks(file: &File, bytes: u64, visit: &mut dyn FnMut(u64, ChunkState)) -> io::Result<()> {
    let pages = bytes.div_ceil(PAGE_BYTES);
    let counts = cached(file, 0, 0)?;
    if counts == Pages::default() {
        return Ok(());
    }
    for chunk in 0..pages.div_ceil(64) {
        let first = chunk * 64;
        let state = part(file, first, (pages - first).min(64))?;
        if state != ChunkState::EMPTY {
            visit(chunk, state);
        }
    }
    Ok(())
}

/// Returns the state of up to 64 pages from page `first`.
fn part(file: &File, first: u64, pages: u64) -> io::Result<ChunkState> {
    let counts = cached(file, first * PAGE_BYTES, pages * PAGE_BYTES)?;
    let all = u64::MAX >> (64 - pages.clamp(1, 64));
    let settled = |count: u64| match count {
        0 => Some(0),
        n if n >= pages => Some(all),
        _ => None,
    };
    if let (Some(present), Some(dirty)) = (settled(counts.cached), settled(counts.dirty)) {
        return Ok(ChunkState { present, dirty });
    }
    let half = pages / 2;
    if half == 0 {
        return Ok(ChunkState::EMPTY);
    }
    let low = part(file, first, half)?;
    let high = part(file, first + half, pages - half)?;
    Ok(ChunkState {
        present: low.present | high.present << half,
        dirty: low.dirty | high.dirty << half,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    /// A file of so many pages, none of them in memory; `None`, aloud, where pages cannot be
    /// dropped.
    fn cold(pages: u64) -> Option<File> {
        let file = tempfile::tempfile_in(".").unwrap();
        file.write_all_at(&vec![7; (pages * PAGE_BYTES) as usize], 0)
            .unwrap();
        file.sync_all().unwrap();
        if !tells(&file).unwrap() || release(&file, 0, None).unwrap() != pages {
            println!("SKIPPED: pages of this file system cannot be dropped");
            return None;
        }
        // A hint at random reads: the system reads no page ahead.
        rustix::fs::fadvise(&file, 0, None, Advice::Random).unwrap();
        Some(file)
    }

    #[test]
    fn runs_are_found_and_released_to_the_page() {
        let Some(file) = cold(100) else { return };
        let page = |n: u64| n * PAGE_BYTES;
        let run = |start, end, cached| PageRun {
            start: page(start),
            end: page(end),
            cached,
        };
        assert_eq!(runs(&file, &(0..page(100))).unwrap(), [run(0, 100, false)]);
        let mut byte = [0];
        for n in [3, 4, 70] {
            file.read_exact_at(&mut byte, page(n) + 5).unwrap();
        }
        let found = [
            run(0, 3, false),
            run(3, 5, true),
            run(5, 70, false),
            run(70, 71, true),
            run(71, 100, false),
        ];
        assert_eq!(runs(&file, &(0..page(100) - 9)).unwrap(), found);
        assert_eq!(runs(&file, &(page(4)..page(70))).unwrap().len(), 2);
        assert_eq!(release(&file, page(4), Some(page(70))).unwrap(), 1);
        assert_eq!(cached(&file, 0, 0).unwrap().cached, 2);
        // A dirty page keeps its neighbours in memory.
        file.write_all_at(&[8], page(4)).unwrap();
        assert_eq!(release(&file, 0, None).unwrap(), 0);
        assert_eq!(cached(&file, 0, 0).unwrap().cached, 3);
    }

    #[test]
    fn memory_itself_tells_nothing() {
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        assert!(!tells(&file).unwrap());
    }

    #[test]
    fn written_pages_are_found_and_holes_are_not() {
        // A checkout may be on an overlay, which has no pages of its own.
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        for page in [0, 1, 63, 64, 200] {
            file.write_all_at(&[7; 4096], page * PAGE_BYTES).unwrap();
        }
        let mut found = Vec::new();
        chunks(&file, 201 * PAGE_BYTES, &mut |chunk, state| {
            found.push((chunk, state.present));
        })
        .unwrap();
        assert_eq!(found, [(0, 1 | 2 | 1 << 63), (1, 1), (3, 1 << 8)]);
    }
}
