//! Reads that leave no copy in the page cache (`O_DIRECT`).
//!
//! Invariant: reads whole blocks into memory that begins at a block, as such reads must; each thread
//! has one buffer for that, of bounded size. A read that cannot be done this way is not done.
//! Called by local files.

use rustix::fs::OFlags;
use std::cell::RefCell;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

/// What offsets, lengths and memory are multiples of: no local disk has larger sectors.
const BLOCK_BYTES: usize = 4096;
/// Longer reads are not done this way.
const READ_BYTES_MAX: usize = 4 << 20;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// See the module's head.
pub(super) struct PastCache(File);

impl PastCache {
    /// Opens the file once more; `None` where the file system has no such reads.
    pub fn of(file: &File) -> Option<Self> {
        let flags = i32::try_from(OFlags::DIRECT.bits()).ok()?;
        let same = format!("/proc/self/fd/{}", file.as_raw_fd());
        let mut options = File::options();
        let opened = options.read(true).custom_flags(flags).open(same);
        opened.ok().map(Self)
    }

    /// Fills `into` from `offset`; false if it could not be filled.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> bool {
        let lead = (offset % BLOCK_BYTES as u64) as usize;
        let need = lead + into.len();
        let len = need.next_multiple_of(BLOCK_BYTES);
        if len > READ_BYTES_MAX {
            return false;
        }
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < len + BLOCK_BYTES {
                *buffer = vec![0; len + BLOCK_BYTES];
            }
            let start = buffer.as_ptr().align_offset(BLOCK_BYTES);
            let Some(blocks) = buffer.get_mut(start..start.saturating_add(len)) else {
                return false;
            };
            let mut filled = 0;
            while filled < need {
                let rest = blocks.get_mut(filled..).unwrap_or_default();
                match self.0.read_at(rest, offset - lead as u64 + filled as u64) {
                    // Whole blocks, but for the one at the end of the file.
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
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn reads_any_range_like_a_plain_read_or_refuses() {
        let path = std::env::temp_dir().join(format!("past-cache-{}", std::process::id()));
        let bytes: Vec<u8> = (0..50_001u32).flat_map(u32::to_le_bytes).collect();
        let mut file = File::options();
        let file = file.read(true).write(true).create(true).truncate(true);
        let mut file = file.open(&path).expect("open");
        file.write_all(&bytes).expect("write");
        file.sync_all().expect("sync");
        let opened = PastCache::of(&file);
        std::fs::remove_file(&path).expect("remove");
        let Some(past) = opened else {
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
