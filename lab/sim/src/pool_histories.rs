//! Histories of a pool for the explorer: operations of users, acknowledgements, and the pool after
//! a crash. `tests/pool*.rs` and the example `explore_pool` use them.
//!
//! ```text
//! PoolOp --> Process --> pool on SimDisk
//!               |              | crash
//!               v              v
//!          History, Model --> examine
//! ```
//!
//! Invariant: a history is a function of its plan and its seed. [`PoolOp`] is the one list of
//! operations. [`Process`] runs them and reports acknowledgements to the explorer's history.
//! [`Model`] is the required state. [`examine`] opens the pool that a crash left and compares.

mod examine;
mod model;
mod ops;
mod origin;
mod process;
mod setup;
mod source;

pub use examine::{FoundPool, data_regions, examine, examine_and_weigh};
pub use model::{Change, Model, Truth, secret};
pub use ops::{Ending, PoolOp, What, random_ops, scripts};
pub use process::Process;
pub use setup::{
    MEMORY_BYTES, at_once, check_all, finish_gc, for_any_gain, init_options, init_options_of,
    lane_options, media, snapshot,
};
pub use source::Source;

use crate::{Expected, History, Scenario, SimDisk};
use std::sync::Arc;

/// One history of a pool.
#[derive(Clone, Debug)]
pub struct PoolHistory {
    /// Name for reports.
    pub name: String,
    /// Decides contents, salts, identifiers.
    pub seed: u64,
    /// Operations.
    pub ops: Vec<PoolOp>,
    /// Number of operations at the start whose crash points are not explored.
    pub settled: usize,
}

impl PoolHistory {
    /// Creates a history that is explored from its first operation on.
    pub fn new(name: &str, seed: u64, ops: Vec<PoolOp>) -> Self {
        Self {
            name: name.to_owned(),
            seed,
            ops,
            settled: 0,
        }
    }

    /// Random operations on an existing pool.
    pub fn random(seed: u64, count: usize) -> Self {
        Self {
            name: "random".to_owned(),
            seed,
            ops: random_ops(seed, count),
            settled: 1,
        }
    }
}

impl Scenario for PoolHistory {
    type Op = Change;
    type Model = Model;

    fn apply(&self, model: &mut Model, change: &Change) {
        model.apply(change);
    }

    fn run(&self, disk: &Arc<SimDisk>, history: &History<Change>) -> Result<(), String> {
        let mut process = Process::new(disk, history, self.seed);
        for (number, op) in self.ops.iter().enumerate() {
            if number == self.settled && number > 0 {
                history.explore_from_here();
            }
            process
                .run(op)
                .map_err(|why| format!("operation {number}, {op:?}: {why}"))?;
        }
        process.finish().map_err(|why| why.to_string())
    }

    fn check(&self, disk: &Arc<SimDisk>, expected: &Expected<Self>) -> Result<(), String> {
        examine(disk, &expected.models, self.seed)
    }
}
