//! Maintenance: garbage collection runs, and tasks over the one driver of `duet`.
//!
//! Invariant: a task that gets no events, or wrong ones in the end, does the same work in its own
//! order; stopping it at any moment loses no data and little work. Nothing here sleeps, starts a
//! thread or knows a clock but the pool's: the program calls bounded steps.
#![forbid(unsafe_code)]

mod collect;
mod defrag;
mod mend;
mod replicate;
mod scrub;
mod slots;
mod upkeep;

pub use collect::{Collector, GcCounts, GcPolicy, GcStage};
pub use defrag::{
    DefragOptions, DefragReport, DefragRun, DefragSource, DefragStage, DefragStep, Defragmenter,
    Heat, RecordedDefrag, Toll,
};
pub use mend::{ReplicaCounts, ReplicaRepair};
pub use replicate::{
    CopiedSnapshot, CopyCounts, CopyError, CopyLimits, CopyOptions, CopyStep, Replication,
};
pub use scrub::{ScrubFindings, ScrubStatus, ScrubStep, ScrubTotals, Scrubber};
pub use upkeep::{
    CollectDecision, CollectLimits, CollectMemory, CollectNote, CollectRun, CollectSchedule,
    NextCollect, PoolSpace, Urgency, scrub_due_s,
};
