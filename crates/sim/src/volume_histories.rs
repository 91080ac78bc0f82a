//! Histories of writable volumes for the explorer: what clients wrote and were told, and what each
//! page may hold after a crash.
//!
//! Invariant: after a crash a page of 4 KiB holds what it held when its volume was last flushed or
//! as some later write left it: never older, never another page's, never a mix. Snapshots and
//! clones that were acknowledged are exact. [`VolumeOp`] is the one list of operations;
//! [`VolumeProcess`] runs them; [`VolumeModel`] says what may be there. Called by
//! `tests/volume_*.rs` and the example `explore_volumes`.

mod examine;
mod model;
mod ops;
mod process;
mod setup;

pub use model::{Page, VolumeChange, VolumeModel};
pub use ops::{VolumeOp, random_volume_ops, volume_scripts};
pub use process::VolumeProcess;

use crate::{Expected, History, Scenario, SimDisk};
use std::sync::Arc;

/// One history of volumes.
#[derive(Clone, Debug)]
pub struct VolumeHistory {
    /// For people.
    pub name: String,
    /// Decides contents, salts, ids.
    pub seed: u64,
    /// What is done.
    pub ops: Vec<VolumeOp>,
}

impl VolumeHistory {
    /// A history that is explored from its first operation on.
    pub fn new(name: &str, seed: u64, ops: Vec<VolumeOp>) -> Self {
        Self {
            name: name.to_owned(),
            seed,
            ops,
        }
    }

    /// Random operations.
    pub fn random(seed: u64, count: usize) -> Self {
        Self::new("random", seed, random_volume_ops(seed, count))
    }
}

impl Scenario for VolumeHistory {
    type Op = VolumeChange;
    type Model = VolumeModel;

    fn apply(&self, model: &mut VolumeModel, change: &VolumeChange) {
        model.apply(change);
    }

    fn run(&self, disk: &Arc<SimDisk>, history: &History<VolumeChange>) -> Result<(), String> {
        let mut process = VolumeProcess::start(disk, history, self.seed)?;
        history.explore_from_here();
        for (number, op) in self.ops.iter().enumerate() {
            process
                .run(op)
                .map_err(|why| format!("operation {number}, {op:?}: {why}"))?;
        }
        process.finish()
    }

    fn check(&self, disk: &Arc<SimDisk>, expected: &Expected<Self>) -> Result<(), String> {
        examine::examine(disk, self.seed, &expected.models)
    }
}
