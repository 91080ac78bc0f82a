//! Makes fragmented files, and the wrong way to migrate. `main` and `odd` call this.
//!
//! Invariant: a file that this makes has pieces of 4 KiB, or making it fails.

use linux_host::Histogram;
use machine::Mount;
use rustix::fs::{CWD, FallocateFlags, Mode, OFlags, fallocate, fstatvfs, openat};
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Memory that direct I/O accepts.
pub struct Aligned {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    /// Makes a buffer of zeroes.
    pub fn new(len: usize) -> Self {
        let memory = vec![0; len + 4096];
        let start = memory.as_ptr().align_offset(4096);
        Self { memory, start, len }
    }

    /// Returns the buffer.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

/// Opens a file for reading and writing past the page cache.
pub fn open_direct(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::DIRECT | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// Makes a file of pieces of 4 KiB, with bytes that tell their place.
pub fn make(path: &Path, bytes: u64) -> io::Result<()> {
    let _ = fs::remove_file(path);
    let directory = path.parent().expect("a directory");
    let magic = rustix::fs::statfs(directory)?.f_type as u64;
    match magic {
        0xEF53 => between_holes(directory, path, bytes)?,
        _ => backwards(path, bytes)?,
    }
    let pieces = Histogram::of(&File::open(path)?)?.pieces();
    // Some pieces are adjacent by accident.
    match pieces >= bytes / 4096 / 2 {
        true => Ok(()),
        false => Err(io::Error::other(format!("only {pieces} pieces"))),
    }
}

/// Fills a block with bytes that tell its place.
pub fn fill(block: &mut [u8], number: u64) {
    for (n, byte) in block.iter_mut().enumerate() {
        *byte = (number as u8).wrapping_mul(31).wrapping_add(n as u8);
    }
    block[..8].copy_from_slice(&number.to_le_bytes());
}

/// Writes from the end to the begin, in turn with another file.
fn backwards(path: &Path, bytes: u64) -> io::Result<()> {
    let other = path.with_extension("other");
    let (file, between) = (open_direct(path)?, open_direct(&other)?);
    let mut block = Aligned::new(4096);
    for number in (0..bytes / 4096).rev() {
        fill(block.bytes(), number);
        file.write_all_at(block.bytes(), number * 4096)?;
        between.write_all_at(block.bytes(), number * 4096)?;
    }
    file.sync_all()?;
    between.sync_all()?;
    fs::remove_file(other)
}

/// Leaves no free space but holes of 4 KiB in another file, and writes there. ext4 reserves too far
/// ahead for anything else. Afterwards the free space has long pieces again.
fn between_holes(directory: &Path, path: &Path, bytes: u64) -> io::Result<()> {
    const LATER: u64 = 96 << 20;
    const HOLES_AT: u64 = 8 << 20;
    let (later, filler) = (directory.join("later"), directory.join("filler"));
    use_reserve(directory)?;
    let kept = File::create(&later)?;
    fallocate(&kept, FallocateFlags::empty(), 0, LATER)?;
    let full = File::create(&filler)?;
    let space = fstatvfs(&full)?;
    let (mut left, mut end) = (space.f_bfree * space.f_frsize, 0);
    while left >= 4096 {
        let part = left.min(16 << 20);
        match fallocate(&full, FallocateFlags::empty(), end, part) {
            Ok(()) => {
                end += part;
                let now = fstatvfs(&full)?;
                left = now.f_bfree * now.f_frsize;
            }
            Err(_) => left = part / 2 / 4096 * 4096,
        }
    }
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    // Some more than needed: for extent blocks of both files.
    for number in 0..bytes / 4096 + 256 {
        fallocate(&full, punch, HOLES_AT + number * 8192, 4096)?;
    }
    full.sync_all()?;
    rustix::fs::syncfs(&full)?;
    let file = File::create(path)?;
    let mut block = vec![0; 4096];
    for number in 0..bytes / 4096 {
        fill(&mut block, number);
        file.write_all_at(&block, number * 4096)?;
    }
    file.sync_all()?;
    fs::remove_file(later)?;
    fs::remove_file(filler)?;
    drop((kept, full));
    Ok(rustix::fs::syncfs(&file)?)
}

/// Lets the filler have the blocks that ext4 keeps for itself. They are in one piece, and are taken
/// when nothing else is free. A few are left: punching holes needs blocks for the extents' tree.
fn use_reserve(directory: &Path) -> io::Result<()> {
    let device = Mount::of(directory)?.device;
    let (major, minor) = (device >> 20, device & 0xF_FFFF);
    let name = fs::read_link(format!("/sys/dev/block/{major}:{minor}"))?;
    let name = name.file_name().expect("a device's name").display();
    fs::write(format!("/sys/fs/ext4/{name}/reserved_clusters"), "64")
}

/// Migrates as it must not be done: what writers do in between is lost.
pub fn punch_and_write_back(path: &Path, range: Range<u64>) -> io::Result<()> {
    let file = File::options().read(true).write(true).open(path)?;
    let bytes = range.end - range.start;
    let mut copy = vec![0; bytes as usize];
    file.read_exact_at(&mut copy, range.start)?;
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, punch, range.start, bytes)?;
    file.write_all_at(&copy, range.start)
}
