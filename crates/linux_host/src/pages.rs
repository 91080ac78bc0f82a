//! Which pages of an open file are in memory, and which of them are dirty, by `cachestat`.
//! `scan` and the program call this.
//!
//! Invariant: asking starts no I/O and brings no page into memory.

use crate::sys;
use std::fs::File;
use std::io;

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
pub(crate) fn chunks(
    file: &File,
    bytes: u64,
    visit: &mut dyn FnMut(u64, ChunkState),
) -> io::Result<()> {
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
