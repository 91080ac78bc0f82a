//! Cost of a load: how it is summed, and what users see of it. The defragmenter and the program
//! call this.
//!
//! Invariant: no I/O.

use format::defrag::{DefragToll, FetchToll, MoveCounts};
use fragpicker::REQUEST_WEIGHT;
use store::{Cost, Move};

use super::DefragReport;

/// Cost of a load, as users see it.
pub trait Toll {
    /// Number of requests.
    fn requests(&self) -> f64;

    /// Device reads for these requests, at best.
    fn reads(&self) -> f64;

    /// Runs of adjacent regions for each MiB of the ranges.
    fn runs_per_mib(&self) -> f64;
}

impl Toll for DefragToll {
    fn requests(&self) -> f64 {
        self.weight as f64 / REQUEST_WEIGHT as f64
    }

    fn reads(&self) -> f64 {
        self.runs_weighed as f64 / REQUEST_WEIGHT as f64
    }

    fn runs_per_mib(&self) -> f64 {
        self.runs as f64 * (1 << 20) as f64 / self.bytes.max(1) as f64
    }
}

/// Cost of random reads, as users see it.
pub trait FetchCost {
    /// Mean number of bytes that a random read of a chunk reads from the device.
    fn bytes_each(&self) -> f64;
}

impl FetchCost for FetchToll {
    fn bytes_each(&self) -> f64 {
        self.bytes_weighed as f64 / (self.weight as f64).max(1.0)
    }
}

/// Adds a range of `count` chunks with requests of this weight. Single reads of each of its chunks
/// would read `bytes`.
pub fn add_fetches(toll: &mut FetchToll, weight: u64, bytes: u64, count: u64) {
    if let Some(each) = bytes.checked_div(count) {
        toll.weight += u128::from(weight);
        toll.bytes_weighed += u128::from(weight) * u128::from(each);
    }
}

/// Sets the number of copies. `is_small`: those since the last time went into small regions.
pub fn set_moved(report: &mut DefragReport, moved: MoveCounts, is_small: bool) {
    let counts = &mut report.counts;
    if is_small {
        // Fewer than before: those that are not committed do not count in a record.
        let change = |small: u64, before: u64, now: u64| (small + now).saturating_sub(before);
        let (small, before) = (&mut counts.small, &counts.moved);
        small.bytes = change(small.bytes, before.bytes, moved.bytes);
        small.stored_bytes = change(small.stored_bytes, before.stored_bytes, moved.stored_bytes);
    }
    counts.moved = moved;
}

/// Adds a range with requests of this weight.
pub fn add(toll: &mut DefragToll, weight: u64, cost: &Cost) {
    toll.weight += u128::from(weight);
    toll.runs_weighed += u128::from(weight) * u128::from(cost.runs);
    toll.bytes += cost.bytes;
    toll.regions += cost.regions;
    toll.runs += cost.runs;
}

/// Subtracts the gain of a move, as if it had been made.
pub fn moved(toll: &mut DefragToll, one: &Move) {
    let less = one.runs.saturating_sub(1);
    let weighed = u128::from(one.weight) * u128::from(less);
    toll.runs_weighed = toll.runs_weighed.saturating_sub(weighed);
    toll.runs = toll.runs.saturating_sub(less);
}
