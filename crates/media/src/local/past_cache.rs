//! Reads and writes without leaving a copy in the page cache (`O_DIRECT`). Local files call this.
//!
//! Invariant: requests consist of whole blocks, in memory that is aligned to a block, as the system
//! demands. Each thread has one buffer of bounded size for that. A request that does not fit these
//! rules is not done.
//!
//! Two adjacent reads share a block where the boundary is inside one. A disk that must read a
//! block again waits for a whole revolution: 6 ms, ten times what 64 KiB take. So a handle keeps
//! the last block for a read that continues. A read that begins earlier, such as a second attempt,
//! asks the device for everything.

use parking_lot::Mutex;
use rustix::fs::OFlags;
use std::cell::RefCell;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

/// Alignment of offsets, lengths and memory. No local disk has larger sectors.
const BLOCK_BYTES: usize = 4096;
/// Maximum length of a read.
const READ_BYTES_MAX: usize = 4 << 20;
/// Maximum length of one request. Longer writes take several.
const WRITE_BYTES_MAX: usize = 1 << 20;

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
    /// Offset at which that read ended, inside this block.
    end: u64,
    bytes: [u8; BLOCK_BYTES],
}

/// File handle opened with `O_DIRECT`.
pub(super) struct PastCache {
    file: File,
    last: Mutex<Option<LastBlock>>,
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

    /// Takes the block that holds `offset` if the last read ended in it, at or before `offset`.
    fn take_last(&self, offset: u64) -> Option<LastBlock> {
        let block = offset / BLOCK_BYTES as u64;
        let last = self.last.lock().take()?;
        (last.end <= offset && last.end / BLOCK_BYTES as u64 == block).then_some(last)
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
            *self.last.lock() = last.map(|bytes| LastBlock { end, bytes: *bytes });
            true
        })
        .unwrap_or(false)
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
mod tests {
    use super::*;
    use std::io::{Read, Write};

    /// Makes a file that is deleted when its handle is closed.
    fn nameless(of: &str) -> File {
        let path = std::env::temp_dir().join(format!("past-cache-{of}-{}", std::process::id()));
        let mut file = File::options();
        let file = file.read(true).write(true).create(true).truncate(true);
        let file = file.open(&path).expect("open");
        std::fs::remove_file(&path).expect("remove");
        file
    }

    #[test]
    fn writes_the_whole_blocks_or_none() {
        let mut file = nameless("writes");
        let Some(past) = PastCache::open(&file, Access::Write) else {
            println!("skipped: this file system has no writes past its cache");
            return;
        };
        let bytes: Vec<u8> = (0..(3u32 << 18) + 1).flat_map(u32::to_le_bytes).collect();
        let blocks = bytes.len() - bytes.len() % BLOCK_BYTES;
        match past.write_at(0, &bytes) {
            0 => return println!("refused"),
            written => assert_eq!(written, blocks, "in several requests"),
        }
        let mut found = Vec::new();
        file.read_to_end(&mut found).expect("read");
        assert!(found == bytes[..blocks]);
        assert_eq!(past.write_at(1, &bytes), 0);
        assert_eq!(past.write_at(4096, &bytes[..4095]), 0);
        assert_eq!(file.metadata().expect("stat").len(), blocks as u64);
    }

    /// A second read of that block would cost a disk a whole revolution.
    #[test]
    fn a_read_that_continues_does_not_read_the_block_at_the_boundary_again() {
        let mut file = nameless("continues");
        file.write_all(&[1; 5 * BLOCK_BYTES]).expect("write");
        file.sync_all().expect("sync");
        let Some(past) = PastCache::open(&file, Access::Read) else {
            println!("skipped: this file system has no reads past its cache");
            return;
        };
        let read = |offset: usize, len: usize| {
            let mut into = vec![0; len];
            past.read_at(offset as u64, &mut into).then_some(into)
        };
        let Some(first) = read(10, BLOCK_BYTES) else {
            return println!("refused");
        };
        assert!(first.iter().all(|byte| *byte == 1));
        // Other bytes on the device show which blocks are read from now on.
        file.write_all_at(&[2; 5 * BLOCK_BYTES], 0).expect("write");
        file.sync_all().expect("sync");
        let next = read(BLOCK_BYTES + 10, 2 * BLOCK_BYTES).expect("read");
        let kept = BLOCK_BYTES - 10;
        assert!(next[..kept].iter().all(|byte| *byte == 1), "read again");
        assert!(next[kept..].iter().all(|byte| *byte == 2));
        // A read that ended between two blocks leaves nothing to the next one.
        let whole = read(0, BLOCK_BYTES).expect("read");
        assert!(whole.iter().all(|byte| *byte == 2));
        file.write_all_at(&[4; 100], BLOCK_BYTES as u64)
            .expect("write");
        let next = read(BLOCK_BYTES, 100).expect("read");
        assert!(next.iter().all(|byte| *byte == 4), "the block before");
        file.write_all_at(&[2; 100], BLOCK_BYTES as u64)
            .expect("write");
        // The same range again, and one that begins earlier: from the device.
        for offset in [BLOCK_BYTES + 10, 3 * BLOCK_BYTES + 9] {
            let again = read(offset, BLOCK_BYTES).expect("read");
            assert!(again.iter().all(|byte| *byte == 2), "{offset}");
        }
        file.write_all_at(&[3; 5 * BLOCK_BYTES], 0).expect("write");
        past.forget();
        let written = read(4 * BLOCK_BYTES + 9, 100).expect("read");
        assert!(written.iter().all(|byte| *byte == 3));
    }

    #[test]
    fn reads_any_range_like_a_plain_read_or_refuses() {
        let mut file = nameless("reads");
        let bytes: Vec<u8> = (0..50_001u32).flat_map(u32::to_le_bytes).collect();
        file.write_all(&bytes).expect("write");
        file.sync_all().expect("sync");
        let Some(past) = PastCache::open(&file, Access::Read) else {
            println!("skipped: this file system has no reads past its cache");
            return;
        };
        for (offset, len) in [
            (0, 1),
            (0, 4096),
            (1, 4096),
            (511, 9000),
            (4095, 2),
            (150_000, 50_004),
        ] {
            let mut into = vec![0; len];
            if past.read_at(offset, &mut into) {
                assert!(
                    into == bytes[offset as usize..][..len],
                    "{len} bytes from {offset}"
                );
            } else {
                println!("refused: {len} bytes from {offset}");
            }
        }
        let beyond = &mut vec![0; 5000];
        assert!(!past.read_at(bytes.len() as u64 - 4999, beyond));
        assert!(!past.read_at(1 << 40, beyond));
        assert!(!past.read_at(0, &mut vec![0; READ_BYTES_MAX + 1]));
    }
}
