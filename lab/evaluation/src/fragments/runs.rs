//! Times reads after a way of defragmentation, and counts what that wrote.
//!
//! The page calls this; so does a test.
//! Invariant: every way of defragmentation starts from the same file.

use super::file::File;
use super::load::Load;
use crate::disk::{Disk, DiskModel, DiskRequest, Ns, SECOND};
use crate::flash::Flash;
use fragpicker::{
    MovePlan, PlanOptions, Trace, TraceOptions, TracedRequest, bypass, hottest, plan,
};
use std::ops::Range;

/// Device of the file.
#[derive(Clone, Copy, Debug)]
pub enum Device {
    /// An SSD.
    Flash(Flash),
    /// A disk.
    Disk(DiskModel),
}

/// Defragmentation before the reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// None.
    Before,
    /// Every window of 128 KiB with a break is rewritten.
    Bypass,
    /// This percentage of the read ranges is rewritten, where they are fragmented.
    FragPicker(u8),
    /// The whole file is rewritten.
    WholeFile,
}

/// Result of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Bytes read, and their time.
    pub read: (u64, Ns),
    /// Bytes that defragmentation wrote; it read as many.
    pub written: u64,
    /// Time of defragmentation.
    pub migration: Ns,
}

impl Outcome {
    /// Returns the speed of the reads, MB/s.
    pub fn speed(&self) -> f64 {
        self.read.0 as f64 / 1e6 / (self.read.1.max(1) as f64 / SECOND as f64)
    }
}

/// Returns the ranges that a way of defragmentation moves.
fn moved(file: &File, way: Way, reads: &[TracedRequest]) -> MovePlan {
    let all = |Ok(plan): Result<MovePlan, std::convert::Infallible>| plan;
    match way {
        Way::Before => MovePlan::default(),
        Way::Bypass => all(bypass(file, 1, PlanOptions::default())),
        Way::FragPicker(percent) => {
            let mut trace = Trace::new(TraceOptions::default());
            reads.iter().for_each(|read| trace.record(read));
            let ranges = hottest(trace.ranges(1, file.bytes()), percent);
            all(plan(file, 1, &ranges, PlanOptions::default()))
        }
        Way::WholeFile => MovePlan {
            ranges: std::iter::once(0..file.bytes()).collect(),
            bytes: file.bytes(),
            ..MovePlan::default()
        },
    }
}

/// Defragments a copy of the file in one way, then times one way of reading it.
pub fn run(device: Device, file: &File, way: Way, load: Load, seed: u64) -> Outcome {
    let mut file = file.clone();
    let reads = load.reads(file.bytes(), seed);
    let plan = moved(&file, way, &reads);
    let mut time = Timer::new(device);
    for range in &plan.ranges {
        // A mebibyte at a time, like tools do.
        for start in (range.start..range.end).step_by(1 << 20) {
            let part = start..range.end.min(start + (1 << 20));
            time.read(&file, part.clone());
            file.migrate(&part);
            time.write(&file, part);
        }
    }
    let migration = std::mem::take(&mut time.spent);
    for read in &reads {
        time.read(&file, read.offset..read.offset + read.len);
    }
    Outcome {
        read: (reads.iter().map(|read| read.len).sum(), time.spent),
        written: plan.bytes,
        migration,
    }
}

struct Timer {
    device: Device,
    disk: Option<Disk>,
    now: Ns,
    spent: Ns,
}

impl Timer {
    fn new(device: Device) -> Self {
        let disk = match device {
            Device::Disk(model) => Some(Disk::new(model)),
            Device::Flash(_) => None,
        };
        Self {
            device,
            disk,
            now: 0,
            spent: 0,
        }
    }

    fn read(&mut self, file: &File, range: Range<u64>) {
        let pieces = file.read(range);
        if let Device::Flash(flash) = self.device {
            self.spent += flash.read(&pieces);
        }
        self.on_disk(&pieces, false);
    }

    fn write(&mut self, file: &File, range: Range<u64>) {
        if let Device::Flash(flash) = self.device {
            self.spent += flash.write(range.end - range.start);
        }
        self.on_disk(&file.read(range), true);
    }

    fn on_disk(&mut self, pieces: &[(u64, u64)], is_write: bool) {
        let Some(disk) = &mut self.disk else {
            return;
        };
        for (address, bytes) in pieces {
            let request = DiskRequest {
                address: *address,
                bytes: *bytes,
                is_write,
            };
            let end = disk.serve(self.now, request);
            self.spent += end - self.now;
            self.now = end;
        }
    }
}
