//! Reads and writes without leaving a copy in the page cache (`O_DIRECT`). Local files call this.
//!
//! Invariant: requests consist of whole blocks, in memory that is aligned to a block, as the system
//! demands. Each thread has one buffer of bounded size for that. A request that does not fit these
//! rules is not done.
//!
//! Two adjacent reads share a block where the boundary is inside one. A disk that must read a
//! block again waits for a whole revolution: 6 ms, ten times what 64 KiB take. So a handle keeps
//! the last block for a read that continues, perhaps a little before the end of the last one:
//! regions share a sector. A read that begins where the last one began, such as a second attempt,
//! or earlier, asks the device for everything.

use super::aio::{self, BLOCK_BYTES, Context, Waited};
use crate::TimedRead;
use parking_lot::Mutex;
use rustix::fs::OFlags;
use std::cell::RefCell;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::{Duration, Instant};

/// Maximum length of a read.
const READ_BYTES_MAX: usize = 4 << 20;
/// Maximum length of one request. Longer writes take several.
const WRITE_BYTES_MAX: usize = 1 << 20;

/// Maximum length of a read with a limit: each keeps its memory for the next one.
const TIMED_BYTES_MAX: usize = 256 << 10;

/// Contexts of reads with a limit, the last used one last.
static IDLE: Mutex<Vec<Context>> = Mutex::new(Vec::new());

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Direction of access.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// The block in which the last read ended.
struct LastBlock {
    /// Offset at which that read began.
    start: u64,
    /// Offset at which it ended, inside this block.
    end: u64,
    bytes: [u8; BLOCK_BYTES],
}

/// File handle opened with `O_DIRECT`.
pub(super) struct PastCache {
    file: File,
    last: Mutex<Option<Box<LastBlock>>>,
}

impl PastCache {
    /// Opens the file once more; `None` where the file system does not support such requests.
    pub fn open(file: &File, access: Access) -> Option<Self> {
        let flags = i32::try_from(OFlags::DIRECT.bits()).ok()?;
        let same = format!("/proc/self/fd/{}", file.as_raw_fd());
        let mut options = File::options();
        let options = match access {
            Access::Read => options.read(true),
            Access::Write => options.write(true),
        };
        let file = options.custom_flags(flags).open(same).ok()?;
        let last = Mutex::new(None);
        Some(Self { file, last })
    }

    /// Takes the block that holds `offset` if the last read ended in it and began before `offset`:
    /// what is read in order may overlap by the sector that two regions share.
    fn take_last(&self, offset: u64) -> Option<Box<LastBlock>> {
        let block = offset / BLOCK_BYTES as u64;
        let last = self.last.lock().take()?;
        (last.start < offset && last.end / BLOCK_BYTES as u64 == block).then_some(last)
    }

    /// Forgets the last block: the file is written.
    pub fn forget(&self) {
        *self.last.lock() = None;
    }

    /// Fills `into` from `offset`. Returns false if it could not be filled.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> bool {
        let lead = (offset % BLOCK_BYTES as u64) as usize;
        let need = lead + into.len();
        let len = need.next_multiple_of(BLOCK_BYTES);
        if len > READ_BYTES_MAX {
            return false;
        }
        let last = self.take_last(offset);
        with_blocks(len, |blocks| {
            let mut filled = 0;
            if let (Some(last), Some(first)) = (&last, blocks.first_chunk_mut()) {
                *first = last.bytes;
                filled = BLOCK_BYTES;
            }
            while filled < need {
                let Some(rest) = blocks.get_mut(filled..) else {
                    return false;
                };
                match self
                    .file
                    .read_at(rest, offset - lead as u64 + filled as u64)
                {
                    // Only the last read of a file may end within a block.
                    Ok(read) if read > 0 && (filled + read >= need || read % BLOCK_BYTES == 0) => {
                        filled += read;
                    }
                    _ => return false,
                }
            }
            match blocks.get(lead..need) {
                Some(bytes) => into.copy_from_slice(bytes),
                None => return false,
            }
            let end = offset.saturating_add(into.len() as u64);
            let is_inside = need < len && filled == len;
            let last = blocks.last_chunk().filter(|_| is_inside);
            *self.last.lock() = last.map(|bytes| {
                Box::new(LastBlock {
                    start: offset,
                    end,
                    bytes: *bytes,
                })
            });
            true
        })
        .unwrap_or(false)
    }

    /// Prepares [`PastCache::read_within`]. May wait for the device.
    pub fn prepare(&self) {
        aio::hold_extents(&self.file);
    }

    /// Fills `into` from `offset`, and waits for that no longer than `limit`.
    pub fn read_within(&self, offset: u64, into: &mut [u8], limit: Duration) -> TimedRead {
        let begun = Instant::now();
        let unable = || TimedRead::Unable(limit.saturating_sub(begun.elapsed()));
        let lead = (offset % BLOCK_BYTES as u64) as usize;
        let need = lead + into.len();
        let len = need.next_multiple_of(BLOCK_BYTES);
        if len > TIMED_BYTES_MAX {
            return unable();
        }
        let idle = IDLE.lock().pop();
        let Some(context) = idle.or_else(Context::new) else {
            return unable();
        };
        let waited = context.read(&self.file, offset - lead as u64, len, limit);
        let (mut context, ended) = match waited {
            Waited::Late(running) => return TimedRead::Late(Box::new(running)),
            Waited::Ended(context, ended) => (context, ended),
        };
        let filled = ended.ok().filter(|read| *read >= need);
        let memory = context.memory(len).filter(|_| filled.is_some());
        let bytes = memory.and_then(|memory| memory.get(lead..need));
        let is_done = bytes.map(|bytes| into.copy_from_slice(bytes)).is_some();
        IDLE.lock().push(context);
        match is_done {
            true => TimedRead::Done,
            // It would have waited, the system cannot do it, the file is shorter, or the device
            // has failed: the usual read reports that.
            false => unable(),
        }
    }

    /// Writes the leading whole blocks of `data`, at a block-aligned offset. Returns the number of
    /// bytes written.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> usize {
        if !offset.is_multiple_of(BLOCK_BYTES as u64) {
            return 0;
        }
        let mut written = 0;
        while let Some(rest) = data.get(written..)
            && rest.len() >= BLOCK_BYTES
        {
            let len = (rest.len() - rest.len() % BLOCK_BYTES).min(WRITE_BYTES_MAX);
            let wrote = with_blocks(len, |blocks| {
                blocks.copy_from_slice(rest.get(..len)?);
                self.file.write_at(blocks, offset + written as u64).ok()
            });
            match wrote.flatten() {
                Some(wrote) if wrote > 0 && wrote % BLOCK_BYTES == 0 => written += wrote,
                _ => break,
            }
        }
        written
    }
}

/// Runs `work` on `len` bytes of this thread's buffer, aligned to a block.
fn with_blocks<T>(len: usize, work: impl FnOnce(&mut [u8]) -> T) -> Option<T> {
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.len() < len + BLOCK_BYTES {
            *buffer = vec![0; len + BLOCK_BYTES];
        }
        let start = buffer.as_ptr().align_offset(BLOCK_BYTES);
        buffer.get_mut(start..start.saturating_add(len)).map(work)
    })
}

#[cfg(test)]
mod tests;
