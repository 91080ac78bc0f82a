//! Maintenance tasks over the files of this machine, which run like those of a pool: a scrub
//! against a snapshot, and defragmentation. `host_tools` runs them for `quintet host`.
//!
//! Invariant: as in `maintenance`: bounded steps; events change the order of the work and nothing
//! else.
#![forbid(unsafe_code)]

mod defrag;
mod scrub;

pub use defrag::{
    HostDefrag, HostDefragOptions, HostDefragOutcome, HostDefragReport, HostFile, HostLeftAlone,
};
pub use scrub::{FileTree, HostScrubNews, HostScrubOptions, HostScrubber, Top, Totals};
