//! Writers of a file, which know what it has to hold. `main` runs them beside migrations.
//!
//! Invariant: a zone of the file has one writer, so the model of the zone is exact.

use crate::dice::Dice;
use crate::fragment::{Aligned, open_direct};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bytes of a zone: more than the largest folio.
pub const ZONE_BYTES: u64 = 4 << 20;

/// How a writer writes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Buffered,
    Direct,
    Mapped,
}

/// One of them, with its zone.
pub struct Writer<'a> {
    kind: Kind,
    file: File,
    /// Begin of the zone in the file.
    offset: u64,
    model: &'a mut [u8],
    map: Option<Map>,
    dice: Dice,
    /// Writes so far.
    pub writes: u64,
    /// Reads that found something else than the model.
    pub wrong_reads: u64,
}

impl<'a> Writer<'a> {
    /// Opens the file.
    pub fn new(
        path: &Path,
        kind: Kind,
        offset: u64,
        model: &'a mut [u8],
        seed: u64,
    ) -> io::Result<Self> {
        let file = match kind {
            Kind::Direct => open_direct(path)?,
            Kind::Buffered | Kind::Mapped => File::options().read(true).write(true).open(path)?,
        };
        let map = match kind {
            Kind::Mapped => Some(Map::of(&file, offset)?),
            Kind::Buffered | Kind::Direct => None,
        };
        Ok(Self {
            kind,
            file,
            offset,
            model,
            map,
            dice: Dice::new(seed),
            writes: 0,
            wrong_reads: 0,
        })
    }

    /// Writes and reads at random places until `stop` is set.
    pub fn write_until(&mut self, stop: &AtomicBool) {
        let mut buffer = Aligned::new(16384);
        while !stop.load(Ordering::Relaxed) {
            let is_direct = self.kind == Kind::Direct;
            let bytes = match is_direct {
                true => 4096 * (1 + self.dice.below(3)),
                false => 1 + self.dice.below(9000),
            };
            let unit = if is_direct { 4096 } else { 1 };
            let at = self.dice.below((ZONE_BYTES - bytes) / unit + 1) * unit;
            let buffer = &mut buffer.bytes()[..bytes as usize];
            if self.dice.below(3) == 0 {
                self.read(at, buffer);
            } else {
                buffer.fill_with(|| self.dice.below(256) as u8);
                self.write(at, buffer);
            }
            // Migrations need some of the processor too.
            if self.dice.below(8) == 0 {
                std::thread::sleep(Duration::from_micros(self.dice.below(300)));
            }
        }
    }

    fn read(&mut self, at: u64, buffer: &mut [u8]) {
        match &self.map {
            Some(map) => map.read(at as usize, buffer),
            None => {
                let read = self.file.read_exact_at(buffer, self.offset + at);
                read.expect("read");
            }
        }
        let model = &self.model[at as usize..][..buffer.len()];
        self.wrong_reads += u64::from(&*buffer != model);
    }

    fn write(&mut self, at: u64, buffer: &[u8]) {
        match &self.map {
            Some(map) => map.write(at as usize, buffer),
            None => {
                let written = self.file.write_all_at(buffer, self.offset + at);
                written.expect("written");
            }
        }
        self.model[at as usize..][..buffer.len()].copy_from_slice(buffer);
        self.writes += 1;
    }
}

/// A shared mapping of a zone.
struct Map(*mut u8);

// SAFETY: one thread at a time uses a writer, and the mapping belongs to no thread.
unsafe impl Send for Map {}

impl Map {
    fn of(file: &File, offset: u64) -> io::Result<Self> {
        // SAFETY: a new mapping of a file that keeps its length.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                ZONE_BYTES as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                offset.cast_signed(),
            )
        };
        match start == libc::MAP_FAILED {
            true => Err(io::Error::last_os_error()),
            false => Ok(Self(start.cast())),
        }
    }

    fn read(&self, at: usize, buffer: &mut [u8]) {
        assert!(at + buffer.len() <= ZONE_BYTES as usize);
        // SAFETY: within the mapping, which no other thread writes to.
        unsafe { std::ptr::copy_nonoverlapping(self.0.add(at), buffer.as_mut_ptr(), buffer.len()) };
    }

    fn write(&self, at: usize, buffer: &[u8]) {
        assert!(at + buffer.len() <= ZONE_BYTES as usize);
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(buffer.as_ptr(), self.0.add(at), buffer.len()) };
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: made by `of`, and used by nothing any more.
        unsafe { libc::munmap(self.0.cast(), ZONE_BYTES as usize) };
    }
}
