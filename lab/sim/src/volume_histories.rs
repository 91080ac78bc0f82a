//! Histories of writable volumes for the explorer: client writes, acknowledgements, and the allowed
//! contents of each page after a crash. `tests/volume_*.rs` and the example `explore_volumes` use
//! them.
//!
//! Invariant: after a crash a page of 4 KiB has its contents at the last flush of its volume or
//! after some later write: never older ones, never another page's, never a mixture. Acknowledged
//! snapshots and clones are exact. [`VolumeOp`] is the one list of operations; [`VolumeProcess`]
//! runs them; [`VolumeModel`] has the allowed states.

mod examine;
mod fast_journal;
mod model;
mod ops;
mod process;
mod setup;

pub use fast_journal::{FastJournalHistory, fast_journal_scripts};
pub use model::{Page, VolumeChange, VolumeModel};
pub use ops::{VolumeOp, random_volume_ops, volume_scripts};
pub use process::VolumeProcess;

use crate::{Expected, History, Scenario, SimDisk};
use std::sync::Arc;

/// One history of volumes.
#[derive(Clone, Debug)]
pub struct VolumeHistory {
    /// Name for reports.
    pub name: String,
    /// Decides contents, salts, identifiers.
    pub seed: u64,
    /// Operations.
    pub ops: Vec<VolumeOp>,
}

impl VolumeHistory {
    /// Creates a history that is explored from its first operation on.
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
        let mut process = VolumeProcess::start(disk, history, self.seed, None)?;
        history.explore_from_here();
        for (number, op) in self.ops.iter().enumerate() {
            process
                .run(op)
                .map_err(|why| format!("operation {number}, {op:?}: {why}"))?;
        }
        drop(process.finish());
        Ok(())
    }

    fn check(&self, disk: &Arc<SimDisk>, expected: &Expected<Self>) -> Result<(), String> {
        examine::examine(disk, self.seed, &expected.models, None).map(drop)
    }
}
