//! Defragmentation: what is read at once is copied to one place, if it is hot and lies in pieces
//! (FragPicker, SOSP'21; decision 25).
//!
//! A run examines the ranges of its load, the hottest first: the ranges of a trace, or, without one, all windows of
//! 128 KiB. Those that lie in more runs of regions than they need, and whose move hurts no other owner
//! more than it helps, are copied, those first of which most is in memory (Duet, SOSP'15). This goes on in
//! rounds, so that memory is bounded; in the end the load is measured again.
//!
//! Invariant: each step is bounded; stopped anywhere, a run has lost nothing. How far it is is written down in
//! intervals, and the next process goes on from there. Called by the program: a thread of a server, or a command.

mod defragmenter;
mod effort;
mod examining;
mod judging;
mod load;
mod moving;
mod outlook;
mod record;
mod report;

pub use defragmenter::Defragmenter;
pub use format::defrag::DefragStage;
pub use load::Heat;
pub use record::{DefragRun, RecordedDefrag};
pub use report::{DefragReport, Toll};

use std::sync::Arc;
use store::{CachedChunks, Fragmentable, LaneOptions, NothingCached, Pool, Result};
use volumes::Volumes;

/// What a run may do.
#[derive(Clone, Copy, Debug)]
pub struct DefragOptions {
    /// Of the ranges of each object, so many out of a hundred: those that are read most.
    pub hot_percent: u8,
    /// Also what hurts other owners.
    pub moves_shared: bool,
    /// Everything, fragmented or not: what the rest is compared with.
    pub rewrites_all: bool,
    /// Only says what it would do.
    pub dry_run: bool,
    /// Bytes read and written in a second, at most.
    pub bytes_per_s: Option<u64>,
    /// How copies are packed.
    pub lane: LaneOptions,
}

/// Whose objects they are, and what is in memory.
#[derive(Clone)]
pub enum DefragSource {
    /// A pool in which nobody else reads.
    Pool(Arc<Pool>),
    /// Open volumes: their page cache tells what is in memory.
    Volumes(Arc<Volumes>),
}

impl DefragSource {
    /// The pool itself.
    pub fn pool(&self) -> &Arc<Pool> {
        match self {
            Self::Pool(pool) => pool,
            Self::Volumes(volumes) => volumes.pool(),
        }
    }

    /// What is read of what, as far as anybody remembers.
    pub fn heat(&self) -> Heat {
        match self {
            Self::Pool(pool) => volumes::stored_heat(pool),
            Self::Volumes(volumes) => volumes.heat(),
        }
    }

    /// What can be defragmented.
    pub fn fragmentables(&self) -> Result<Vec<Fragmentable>> {
        match self {
            Self::Pool(pool) => pool.fragmentables(),
            Self::Volumes(volumes) => volumes.fragmentables(),
        }
    }
}

/// Who has chunks in memory.
fn memory_of(source: &DefragSource) -> &dyn CachedChunks {
    match source {
        DefragSource::Volumes(volumes) => &**volumes,
        DefragSource::Pool(_) => &NothingCached,
    }
}
