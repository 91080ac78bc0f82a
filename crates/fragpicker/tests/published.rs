//! Reproduces the paper's synthetic file and loads, in counts: bytes to write, and requests before
//! and after.
//!
//! Speed depends on a device; counts do not.

use fragpicker::{
    MovePlan, ObjectLayout, Piece, PlanOptions, Trace, TraceOptions, TracedRequest, bypass,
    hottest, plan,
};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::Range;

const KIB: u64 = 1 << 10;
const SIZE: u64 = 64 << 20;

/// Layout of the file by block. Every 256 KiB: 32 pieces of 4 KiB, and one of 128 KiB.
struct File(BTreeMap<u64, u64>);

impl File {
    fn new() -> Self {
        let place = |block: u64| match block % 64 {
            // No two of them are contiguous.
            n @ 0..32 => (1 << 40) + (block - n + n * 2) * 4 * KIB,
            _ => (1 << 41) + block * 4 * KIB,
        };
        Self((0..SIZE / (4 * KIB)).map(|b| (b, place(b))).collect())
    }

    /// Carries a plan out: each range becomes one piece.
    fn migrate(&mut self, plan: &MovePlan) {
        for (nth, range) in (0..).zip(&plan.ranges) {
            let blocks = range.start / (4 * KIB)..range.end.div_ceil(4 * KIB);
            for block in blocks.clone() {
                let place = (1 << 50) + (nth << 30) + (block - blocks.start) * 4 * KIB;
                self.0.insert(block, place);
            }
        }
    }

    /// Counts the requests to the device for these reads.
    fn device_requests(&self, reads: &[TracedRequest]) -> u64 {
        let split = |read: &TracedRequest| {
            let blocks = read.offset / (4 * KIB)..(read.offset + read.len) / (4 * KIB);
            let places: Vec<u64> = blocks.map(|b| self.0[&b]).collect();
            let breaks = places.windows(2).filter(|p| p[0] + 4 * KIB != p[1]);
            breaks.count() as u64 + 1
        };
        reads.iter().map(split).sum()
    }
}

impl ObjectLayout for File {
    type Error = Infallible;

    fn size(&self, _: u64) -> Result<u64, Infallible> {
        Ok(SIZE)
    }

    fn pieces(&self, _: u64, range: Range<u64>) -> Result<Vec<Piece>, Infallible> {
        let blocks = range.start / (4 * KIB)..range.end.div_ceil(4 * KIB);
        let piece = |(block, place): (&u64, &u64)| Piece {
            offset: block * 4 * KIB,
            len: 4 * KIB,
            place: *place,
            is_shared: false,
        };
        Ok(self.0.range(blocks).map(piece).collect())
    }
}

fn direct(offset: u64, len: u64) -> TracedRequest {
    TracedRequest {
        object: 1,
        offset,
        len,
        is_direct: true,
        is_write: false,
    }
}

fn picked(file: &File, reads: &[TracedRequest], percent: u8) -> MovePlan {
    let mut trace = Trace::new(TraceOptions::default());
    reads.iter().for_each(|read| trace.record(read));
    let ranges = hottest(trace.ranges(1, SIZE), percent);
    plan(file, 1, &ranges, PlanOptions::default()).expect("no errors")
}

#[test]
fn sequential_reads_need_half_of_the_writes() {
    let mut file = File::new();
    let reads: Vec<TracedRequest> = (0..SIZE / (128 * KIB))
        .map(|n| direct(n * 128 * KIB, 128 * KIB))
        .collect();
    let plan = picked(&file, &reads, 100);
    assert!(plan.bytes * 100 <= SIZE * 50, "{} bytes", plan.bytes);
    let without_trace = bypass(&file, 1, PlanOptions::default()).expect("no errors");
    assert_eq!(without_trace, plan);
    assert_eq!(file.device_requests(&reads), SIZE / (256 * KIB) * 33);
    file.migrate(&plan);
    assert_eq!(file.device_requests(&reads), reads.len() as u64);
    assert_eq!(picked(&file, &reads, 100).bytes, 0, "nothing is left to do");
}

#[test]
fn strides_need_three_tenths_of_the_writes() {
    let mut file = File::new();
    let starts = (0..).map(|n| n * (128 + 288) * KIB);
    let reads: Vec<TracedRequest> = starts
        .take_while(|start| start + 128 * KIB <= SIZE)
        .map(|start| direct(start, 128 * KIB))
        .collect();
    let plan = picked(&file, &reads, 100);
    assert!(plan.bytes * 100 <= SIZE * 30, "{} bytes", plan.bytes);
    file.migrate(&plan);
    assert_eq!(file.device_requests(&reads), reads.len() as u64);
}

/// Reads of 16 KiB, the hot ones most often (Zipf, 0.99). A third of the ranges is moved.
#[test]
fn a_third_of_the_writes_serves_most_of_a_skewed_load() {
    let mut file = File::new();
    let ranges = SIZE / (16 * KIB);
    let mut reads = Vec::new();
    for rank in 1..=ranges {
        let times = (2000.0 / (rank as f64).powf(0.99)).ceil() as u64;
        // Hot ranges are scattered.
        let offset = rank.wrapping_mul(0x9e37_79b1) % ranges * 16 * KIB;
        reads.extend((0..times).map(|_| direct(offset, 16 * KIB)));
    }
    let plan = picked(&file, &reads, 30);
    assert!(plan.bytes * 100 <= SIZE * 34, "{} bytes", plan.bytes);
    let before = file.device_requests(&reads) - reads.len() as u64;
    file.migrate(&plan);
    let after = file.device_requests(&reads) - reads.len() as u64;
    assert!(after * 4 <= before, "{before} splits before, {after} after");
}
