//! Defragmentation: copies ranges that are read together to one place, if they are hot and
//! fragmented (FragPicker, SOSP'21; decision 25). The program calls this: a thread of a server, or
//! a command.
//!
//! ```text
//! Sizing -> Examining -> Judging -> Moving -> Measuring -> Done
//!              ^                      |
//!              +---- more ranges -----+
//! ```
//!
//! A run examines the ranges of its load, the hottest first: the ranges of a trace, or, without
//! one, all windows of 128 KiB. It copies ranges that lie in more runs of regions than necessary
//! and whose move does not fragment other owners more than it helps. Ranges that are mostly in
//! memory go first (Duet, SOSP'15). Rounds bound the memory. At the end the load is measured again.
//!
//! The last rounds copy hot chunks that random reads have to fetch in large regions into small ones
//! (decision 47): at most three percent of an object. A server begins runs of only these by itself.
//!
//! Invariant: each step is bounded, and stopping anywhere loses no data. The run records its
//! progress at intervals; the next process continues there.

mod allowance;
mod defragmenter;
mod examining;
mod hot_chunks;
mod load;
mod moving;
mod outlook;
mod record;
mod report;
mod small;
mod step_budget;
mod toll_estimator;

pub use defragmenter::Defragmenter;
pub use format::defrag::{DefragReport, DefragStage};
pub use hot_chunks::{HotChunks, HotDecision, HotState, HotWait};
pub use load::Heat;
pub use record::{DefragRun, RecordedDefrag};
pub use report::{FetchCost, Toll};

use std::sync::Arc;
use store::{CachedChunks, Fragmentable, LaneOptions, NothingCached, Pool, Result};
use volumes::Volumes;

/// Options of a run.
#[derive(Clone, Copy, Debug)]
pub struct DefragOptions {
    /// Percentage of each object's ranges to move: the hottest.
    pub hot_percent: u8,
    /// Also move ranges whose move fragments other owners.
    pub moves_shared: bool,
    /// Move everything, fragmented or not: the baseline for comparisons.
    pub rewrites_all: bool,
    /// Only reports what it would do.
    pub dry_run: bool,
    /// Maximum bytes read and written in a second.
    pub bytes_per_s: Option<u64>,
    /// Packing of the copies.
    pub lane: LaneOptions,
}

/// Source of the objects, and of the knowledge what is in memory.
#[derive(Clone)]
pub enum DefragSource {
    /// A pool without other readers in this process.
    Pool(Arc<Pool>),
    /// Open volumes: their page cache knows what is in memory.
    Volumes(Arc<Volumes>),
}

impl DefragSource {
    /// The pool.
    pub fn pool(&self) -> &Arc<Pool> {
        match self {
            Self::Pool(pool) => pool,
            Self::Volumes(volumes) => volumes.pool(),
        }
    }

    /// Returns the recorded reads of each object.
    pub fn heat(&self) -> Heat {
        match self {
            Self::Pool(pool) => volumes::stored_heat(pool),
            Self::Volumes(volumes) => volumes.heat(),
        }
    }

    /// Returns the short reads, by object, of which a random read fetched much more than it needs.
    pub fn amplified(&self) -> Heat {
        match self {
            Self::Pool(pool) => volumes::stored_amplified(pool),
            Self::Volumes(volumes) => volumes.amplified(),
        }
    }

    /// Returns the objects that can be defragmented.
    pub fn fragmentables(&self) -> Result<Vec<Fragmentable>> {
        match self {
            Self::Pool(pool) => pool.fragmentables(),
            Self::Volumes(volumes) => volumes.fragmentables(),
        }
    }
}

/// Returns the cache that has chunks in memory.
fn memory_of(source: &DefragSource) -> &dyn CachedChunks {
    match source {
        DefragSource::Volumes(volumes) => &**volumes,
        DefragSource::Pool(_) => &NothingCached,
    }
}
