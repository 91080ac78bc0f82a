//! Reads with explicit read-ahead. Local files call this.
//!
//! By itself the system doubles its read-ahead with each read that continues the last one, on some
//! devices up to some MiB. That delays others that want the device meanwhile.
//!
//! Invariant: the file is opened a second time, so that advice for this handle does not affect
//! reads through the other one.

use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// File handle without the system's own read-ahead.
pub(super) struct Ahead(File);

impl Ahead {
    /// Opens the file once more; `None` where the system takes no advice.
    pub fn open(file: &File) -> Option<Self> {
        let same = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
        fadvise(&same, 0, None, Advice::Random).ok()?;
        Some(Self(same))
    }

    /// Returns the file, of which the system reads nothing ahead by itself.
    pub fn file(&self) -> &File {
        &self.0
    }

    /// Makes the system begin to read a range. Returns false if it does not.
    pub fn announce(&self, offset: u64, len: NonZeroU64) -> bool {
        fadvise(&self.0, offset, Some(len), Advice::WillNeed).is_ok()
    }

    /// Fills `into` from `offset` and makes the system read `ahead_bytes` behind it.
    pub fn read_at(&self, offset: u64, into: &mut [u8], ahead_bytes: u64) -> io::Result<()> {
        let all = ahead_bytes.saturating_add(into.len() as u64);
        if ahead_bytes > 0
            && let Some(all) = NonZeroU64::new(all)
        {
            // This is advice; the read below reports errors.
            self.announce(offset, all);
        }
        self.0.read_exact_at(into, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: usize = 16 << 10;
    const WINDOW: u64 = 256 << 10;

    /// Returns the bytes that the system has read from the device for this thread; `None` where it
    /// does not count them.
    fn device_bytes() -> Option<u64> {
        let counts = std::fs::read_to_string("/proc/thread-self/io").ok()?;
        let line = counts
            .lines()
            .find_map(|l| l.strip_prefix("read_bytes: "))?;
        line.parse().ok()
    }

    #[test]
    fn the_system_reads_as_far_as_advised() {
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
        // A reader that continues through two windows.
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
