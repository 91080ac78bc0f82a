//! Reads of which the caller says how far the system reads ahead.
//!
//! Left to itself the system doubles what it reads ahead with each read that goes on where the last one has ended, on
//! some devices up to some MiB: in front of whoever else wants the device meanwhile.
//!
//! Invariant: a second opening of the file, so that what is said of it is not said of the other one's reads.
//! Called by local files.

use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// See the module's head.
pub(super) struct Ahead(File);

impl Ahead {
    /// Opens the file once more; `None` where it cannot be told.
    pub fn open(file: &File) -> Option<Self> {
        let same = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
        fadvise(&same, 0, None, Advice::Random).ok()?;
        Some(Self(same))
    }

    /// The file, of which the system reads ahead nothing by itself.
    pub fn file(&self) -> &File {
        &self.0
    }

    /// Fills `into` from `offset`; so many bytes behind it come along.
    pub fn read_at(&self, offset: u64, into: &mut [u8], ahead_bytes: u64) -> io::Result<()> {
        let all = ahead_bytes.saturating_add(into.len() as u64);
        if ahead_bytes > 0
            && let Some(all) = NonZeroU64::new(all)
        {
            // A wish; the read says what is wrong.
            let _ = fadvise(&self.0, offset, Some(all), Advice::WillNeed);
        }
        self.0.read_exact_at(into, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: usize = 16 << 10;
    const WINDOW: u64 = 256 << 10;

    /// Bytes that the system has read from the device for this thread; `None` where it does not count.
    fn device_bytes() -> Option<u64> {
        let counts = std::fs::read_to_string("/proc/thread-self/io").ok()?;
        let line = counts
            .lines()
            .find_map(|l| l.strip_prefix("read_bytes: "))?;
        line.parse().ok()
    }

    #[test]
    fn the_system_reads_as_far_as_it_is_told() {
        let dir = std::env::var("CARGO_TARGET_TMPDIR").unwrap_or_else(|_| ".".to_owned());
        let path = format!("{dir}/ahead-{}", std::process::id());
        let bytes: Vec<u8> = (0..4 << 20).map(|n: u32| (n >> 12) as u8).collect();
        std::fs::write(&path, &bytes).expect("write");
        let file = File::open(&path).expect("open");
        std::fs::remove_file(&path).expect("remove");
        file.sync_all().expect("sync");
        fadvise(&file, 0, None, Advice::DontNeed).expect("advice");
        let ahead = Ahead::open(&file).expect("open");
        let mut into = vec![0; PART];
        let mut read = |at: u64, ahead_bytes: u64| {
            let before = device_bytes();
            ahead.read_at(at, &mut into, ahead_bytes).expect("read");
            assert_eq!(into, bytes[at as usize..][..PART]);
            device_bytes()
                .zip(before)
                .map(|(after, before)| after - before)
        };
        let Some(first) = read(0, 0).filter(|first| *first > 0) else {
            eprintln!("skipped: nobody says what was read from this device");
            return;
        };
        assert_eq!(first, PART as u64, "nothing more");
        // One who goes on through two windows.
        let mut at = PART as u64;
        while at < 2 * WINDOW {
            let end = at + PART as u64;
            let left = end.next_multiple_of(WINDOW) - end;
            let expected = match at {
                _ if at == PART as u64 => WINDOW - at,
                WINDOW => WINDOW,
                _ => 0,
            };
            assert_eq!(read(at, left), Some(expected), "at {at}");
            at = end;
        }
        assert!(ahead.read_at(4 << 20, &mut [0], 0).is_err(), "the end");
    }
}
