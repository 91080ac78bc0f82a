//! Histories of a journal for the explorer: appends, flushes, trims, deaths of processes, and the
//! contents required after a crash. `tests/journal_*.rs` and the example `explore_journal` use
//! them.
//!
//! Invariant: a history is a function of its operations and its seed. Every record has its own
//! number, so that replay can be compared with the appends. After a crash, replay returns the
//! records from the first needed one, without a gap, at least up to the last flushed one, and none
//! that an earlier process lost.

mod checkpoint;
mod examine;
mod ops;
mod process;
mod records;

pub use checkpoint::Checkpoint;
pub use examine::{examine, expect, go_on};
pub use ops::{JournalOp, random_ops, scripts};
pub use records::{Replayed, Size, open};

use crate::{Expected, History, Scenario, SimDisk};
use format::config::Seal;
use process::Process;
use std::ops::Range;
use std::sync::Arc;
use units::JournalPosition;

/// One history of a journal.
#[derive(Clone, Debug)]
pub struct JournalHistory {
    /// Name for reports.
    pub name: String,
    /// Decides salts.
    pub seed: u64,
    /// Whether records are sealed.
    pub seal: Seal,
    /// Operations.
    pub ops: Vec<JournalOp>,
}

/// A fact about the journal, from some moment on.
#[derive(Clone, Debug)]
pub enum Fact {
    /// All records below this number are durable; their positions are below this one.
    Flushed(u64, JournalPosition),
    /// A checkpoint makes records below this number unnecessary.
    Needless(u64),
    /// The journal is recorded to reach this position.
    Reached(JournalPosition),
    /// These records were lost with their process.
    Lost(Range<u64>),
}

/// All known facts.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    flushed: u64,
    needless: u64,
    lost: Vec<Range<u64>>,
    head: JournalPosition,
    reached: JournalPosition,
}

impl JournalHistory {
    /// Random operations.
    pub fn random(seed: u64, count: usize) -> Self {
        Self {
            name: "random".to_owned(),
            seed,
            seal: [Seal::None, Seal::Aes256Gcm][seed as usize % 2],
            ops: random_ops(seed, count),
        }
    }

    /// The scripted histories, alternately in pools with and without encryption.
    pub fn scripted(seed: u64) -> Vec<Self> {
        let history = |(number, (name, ops)): (u64, (&str, Vec<JournalOp>))| Self {
            name: name.to_owned(),
            seed,
            seal: [Seal::None, Seal::Aes256Gcm][(seed + number) as usize % 2],
            ops,
        };
        (0..).zip(scripts()).map(history).collect()
    }
}

impl Scenario for JournalHistory {
    type Op = Fact;
    type Model = Facts;

    fn apply(&self, facts: &mut Facts, fact: &Fact) {
        match fact {
            Fact::Flushed(number, head) => {
                facts.flushed = facts.flushed.max(*number);
                facts.head = facts.head.max(*head);
            }
            Fact::Reached(reached) => facts.reached = facts.reached.max(*reached),
            Fact::Needless(number) => facts.needless = facts.needless.max(*number),
            Fact::Lost(lost) => facts.lost.push(lost.clone()),
        }
    }

    fn run(&self, disk: &Arc<SimDisk>, history: &History<Fact>) -> Result<(), String> {
        Checkpoint::prepare(disk)?;
        history.explore_from_here();
        let mut process = Process::start(disk, history, self.seal)?;
        for (number, op) in self.ops.iter().enumerate() {
            process
                .run(op)
                .map_err(|why| format!("operation {number}, {op:?}: {why}"))?;
        }
        Ok(())
    }

    fn check(&self, disk: &Arc<SimDisk>, expected: &Expected<Self>) -> Result<(), String> {
        examine(disk, &expected.acked, self.seal)
    }
}
