//! A file with holes, preallocated ranges and a tail, defragmented while nobody writes. `main`
//! calls this.
//!
//! Invariant: it compares bytes, what is a hole and what is preallocated, and the file's times.

use crate::fragment;
use fragpicker::{PlanOptions, bypass};
use linux_host::{FileLayout, Histogram, Limits, Target, defragment_file, extents};
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Bytes of the file, with a tail of less than a block.
const BYTES: u64 = (3 << 20) + 1234;

/// Returns true if everything stayed.
pub fn run(directory: &Path) -> bool {
    let path = directory.join("odd");
    make(&path).expect("the file");
    let before = FileContents::of(&path).expect("its state");
    let file = File::open(&path).expect("the file");
    let layout = FileLayout::of(&file).expect("a layout");
    let plan = bypass(&layout, 0, PlanOptions::default()).expect("a plan");
    let target = Target::open(&path).expect("the file may be migrated");
    let report = defragment_file(&target, plan.ranges, Limits::default());
    drop(target);
    file.sync_all().expect("synced");
    let after = FileContents::of(&path).expect("its state");
    println!(
        "odd file: {} pieces, then {}; {} bytes moved; {:?}",
        before.pieces, after.pieces, report.migrated.bytes, report.skipped
    );
    let is_same = before.bytes == after.bytes
        && before.written == after.written
        && before.preallocated == after.preallocated
        && before.times == after.times;
    if !is_same {
        println!("bytes, holes, preallocated ranges or times differ");
    }
    is_same && after.pieces * 10 < before.pieces && report.stopped_by.is_none()
}

fn make(path: &Path) -> io::Result<()> {
    fragment::make(path, 3 << 20)?;
    let file = File::options().read(true).write(true).open(path)?;
    let keep = FallocateFlags::KEEP_SIZE;
    file.write_all_at(&[7; 1234], 3 << 20)?;
    let punch = FallocateFlags::PUNCH_HOLE | keep;
    // In one window, over several, and a part of a block.
    for (offset, bytes) in [(4096, 8192), (300 << 10, 400 << 10), ((1 << 20) + 5, 9000)] {
        fallocate(&file, punch, offset, bytes)?;
    }
    // Preallocated within the file, and beyond its end.
    fallocate(&file, punch, 2 << 20, 64 << 10)?;
    fallocate(&file, FallocateFlags::empty(), (2 << 20) + 8192, 32 << 10)?;
    fallocate(&file, keep, 4 << 20, 1 << 20)?;
    file.sync_all()
}

#[derive(PartialEq)]
struct FileContents {
    bytes: Vec<u8>,
    written: Vec<(u64, u64)>,
    preallocated: Vec<(u64, u64)>,
    times: [i64; 4],
    pieces: u64,
}

impl FileContents {
    fn of(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let (mut written, mut preallocated) = (Vec::new(), Vec::new());
        extents(&file, 0..u64::MAX, &mut |extent| {
            let list = match extent.is_preallocated() {
                true => &mut preallocated,
                false => &mut written,
            };
            match list.last_mut() {
                Some((_, end)) if *end == extent.offset => *end += extent.len,
                _ => list.push((extent.offset, extent.offset + extent.len)),
            }
        })?;
        let times = file.metadata()?;
        let times = [
            times.mtime(),
            times.mtime_nsec(),
            times.ctime(),
            times.ctime_nsec(),
        ];
        let pieces = Histogram::of(&file)?.pieces();
        let mut bytes = fs::read(path)?;
        assert_eq!(bytes.len() as u64, BYTES);
        // The device has to have it too, the tail aside.
        file.sync_all()?;
        let mut on_device = fragment::Aligned::new(3 << 20);
        fragment::open_direct(path)?.read_exact_at(on_device.bytes(), 0)?;
        bytes.extend_from_slice(on_device.bytes());
        Ok(Self {
            bytes,
            written,
            preallocated,
            times,
            pieces,
        })
    }
}
