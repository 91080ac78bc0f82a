//! Cost of a load: how it is summed, and what users see of it. The defragmenter and the program
//! call this.
//!
//! Invariant: no I/O.

use format::defrag::DefragToll;
use fragpicker::REQUEST_WEIGHT;
use store::{Cost, Move};

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
