//! The target file of an export: long writes, past the page cache where that is faster. The export
//! calls this, with one [`Window`] for each thread.
//!
//! Invariant: every byte is written at its place, by either kind of write. A write past the cache
//! (`O_DIRECT`) needs neither a copy nor new memory, does not wait for the file's lock, and leaves
//! no dirty page. File systems that refuse it and devices slower than memory get ordinary writes.

use parking_lot::Mutex;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use units::Part;

/// Bytes that are collected into one write.
const WINDOW_BYTES: usize = 2 << 20;
/// Alignment of addresses, offsets and lengths of direct writes: no device in use needs more.
pub const BLOCK_BYTES: usize = 4096;
/// Devices that are slower than this, or take longer to begin, are better written through the page
/// cache.
const FAST_BYTES_PER_MS: u32 = 200 << 10;
const FAST_START: Duration = Duration::from_micros(200);
/// Number of direct writes, none of them fast, after which a device counts as slow. On a busy
/// machine most writes wait for the processor.
const TRIAL_WRITES: usize = 32;

/// The target. All threads share it.
pub struct ExportTarget<'a> {
    file: &'a File,
    direct: AtomicBool,
    direct_writes: AtomicUsize,
    /// One of the last [`TRIAL_WRITES`] was fast.
    fast: AtomicBool,
    /// One ordinary write at a time: the kernel locks the file anyway, and spins while it waits.
    writing: Mutex<()>,
}

impl<'a> ExportTarget<'a> {
    /// `blocks`: all writes will be whole blocks at multiples of [`BLOCK_BYTES`].
    pub fn new(file: &'a File, blocks: bool) -> Self {
        let direct = blocks && set_direct(file, true).is_ok();
        Self {
            file,
            direct: AtomicBool::new(direct),
            direct_writes: AtomicUsize::new(0),
            fast: AtomicBool::new(false),
            writing: Mutex::new(()),
        }
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while self.direct.load(Ordering::Acquire) && done < bytes.len() {
            let rest = bytes.part(done..)?;
            let started = Instant::now();
            match self.file.write_at(rest, offset + done as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    done += count;
                    self.judge(count, started.elapsed())?;
                }
                // Direct writes are refused, or the rest of a short write is not aligned.
                Err(e) if e.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                    self.leave_direct()?;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        let rest = bytes.part(done..)?;
        if rest.is_empty() {
            return Ok(());
        }
        let _one = self.writing.lock();
        self.file.write_all_at(rest, offset + done as u64)
    }

    /// Measures a direct write, and ends direct writes if all were slow.
    fn judge(&self, count: usize, took: Duration) -> io::Result<()> {
        if took <= FAST_START + Duration::from_millis(count as u64) / FAST_BYTES_PER_MS {
            self.fast.store(true, Ordering::Relaxed);
        }
        let writes = self.direct_writes.fetch_add(1, Ordering::Relaxed) + 1;
        let slow = writes.is_multiple_of(TRIAL_WRITES) && !self.fast.swap(false, Ordering::Relaxed);
        if slow { self.leave_direct() } else { Ok(()) }
    }

    fn leave_direct(&self) -> io::Result<()> {
        set_direct(self.file, false)?;
        // Only now: threads that see `false` make ordinary writes of any length.
        self.direct.store(false, Ordering::Release);
        Ok(())
    }
}

impl Drop for ExportTarget<'_> {
    fn drop(&mut self) {
        // The owner keeps the file. If the flag cannot be cleared, the file is only slower.
        let _ = self.leave_direct();
    }
}

fn set_direct(file: &File, on: bool) -> rustix::io::Result<()> {
    let mut flags = rustix::fs::fcntl_getfl(file)?;
    flags.set(OFlags::DIRECT, on);
    rustix::fs::fcntl_setfl(file, flags)
}

/// Adjacent bytes that wait for one write.
pub struct Window<'t> {
    target: &'t ExportTarget<'t>,
    /// Used from `start` on, which is aligned to a block in memory.
    bytes: Vec<u8>,
    start: usize,
    len: usize,
    offset: u64,
}

impl<'t> Window<'t> {
    /// Creates an empty window.
    pub fn new(target: &'t ExportTarget<'t>) -> Self {
        let bytes = vec![0; WINDOW_BYTES + BLOCK_BYTES];
        let start = bytes.as_ptr().align_offset(BLOCK_BYTES);
        Self {
            target,
            bytes,
            start,
            len: 0,
            offset: 0,
        }
    }

    /// Adds bytes for `offset` of the target. First writes the waiting ones, if the new ones are
    /// not adjacent or do not fit.
    pub fn push(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let follows = offset == self.offset + self.len as u64;
        if !follows || self.len + bytes.len() > WINDOW_BYTES {
            self.flush()?;
            self.offset = offset;
        }
        let at = self.start + self.len;
        match self.bytes.get_mut(at..at + bytes.len()) {
            Some(into) => {
                into.copy_from_slice(bytes);
                self.len += bytes.len();
                Ok(())
            }
            // Longer than a window.
            None => self.target.write(bytes, offset),
        }
    }

    /// Writes the waiting bytes.
    pub fn flush(&mut self) -> io::Result<()> {
        let waiting = self.bytes.get(self.start..self.start + self.len);
        self.len = 0;
        match waiting {
            Some(bytes) if !bytes.is_empty() => self.target.write(bytes, self.offset),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 3 * WINDOW_BYTES + 5 * BLOCK_BYTES;

    fn pattern() -> Vec<u8> {
        (0..LEN).map(|n| (n / 7 + n / BLOCK_BYTES) as u8).collect()
    }

    /// Writes the pattern in pieces of `step` bytes, without number `hole`. Returns true if the
    /// file has it.
    fn written(blocks: bool, step: usize, hole: usize) -> bool {
        // In the directory of the build, because temporary directories are often in memory.
        let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.set_len(LEN as u64).unwrap();
        let mut expected = pattern();
        let target = ExportTarget::new(&file, blocks);
        let mut window = Window::new(&target);
        for (number, piece) in expected.chunks_mut(step).enumerate() {
            if number == hole {
                piece.fill(0);
            } else {
                window.push((number * step) as u64, piece).unwrap();
            }
        }
        window.flush().unwrap();
        drop(target);
        let mut found = vec![1; LEN];
        file.read_exact_at(&mut found, 0).unwrap();
        found == expected
    }

    #[test]
    fn what_is_pushed_stands_in_the_file() {
        for blocks in [true, false] {
            for step in [BLOCK_BYTES, 4 * BLOCK_BYTES, WINDOW_BYTES + BLOCK_BYTES] {
                assert!(written(blocks, step, 2), "blocks {blocks}, step {step}");
            }
        }
    }

    #[test]
    fn refused_writes_are_made_the_ordinary_way() {
        // No whole blocks, contrary to `blocks`.
        assert!(written(true, BLOCK_BYTES + 1, 7));
    }

    #[test]
    fn a_device_that_is_never_fast_is_written_behind_our_back() {
        let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let target = ExportTarget::new(&file, true);
        // Whether or not the file system supports it.
        target.direct.store(true, Ordering::Relaxed);
        let judge = |len: usize, ms| target.judge(len, Duration::from_millis(ms)).unwrap();
        let direct = || target.direct.load(Ordering::Relaxed);
        for _ in 0..10 {
            (1..TRIAL_WRITES).for_each(|_| judge(WINDOW_BYTES, 100));
            judge(WINDOW_BYTES, 9);
        }
        assert!(direct(), "one of 32 writes was fast");
        (1..TRIAL_WRITES).for_each(|_| judge(WINDOW_BYTES, 12));
        assert!(direct(), "judged too early");
        judge(BLOCK_BYTES, 1);
        assert!(!direct(), "none was fast");
    }
}
