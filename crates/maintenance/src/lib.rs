//! Maintenance: garbage collection runs, and tasks over the one driver of `duet`. The program calls
//! them: server threads and commands.
//!
//! ```text
//! program --> `controller` (I/O grants) --> `MaintenanceTask` --> scrub, replication, gc,
//!    |                                                            defragmentation
//!    +------> `ControlledTask`: pause, resume, cancel, record --> `TaskReport`: what is shown
//! program --> `schedule`: when a server starts gc or a scrub
//! program --> `repair`: repair from a replica
//! ```
//!
//! Invariant: a task that gets no events, or wrong ones in the end, does the same work in its own
//! order. Stopping it at any moment loses no data and little work. Nothing here sleeps, starts a
//! thread or uses a clock other than the pool's: the program calls bounded steps.
#![forbid(unsafe_code)]

mod collect;
mod controller;
mod defrag;
mod listening;
mod repair;
mod replicate;
mod report;
mod schedule;
mod scrub;
mod slots;
mod task;

pub use collect::{Collecting, Collector, GcCounts, GcPolicy, GcRun, GcStage};
pub use controller::{Alone, Host, IoGrant, RunEnd, StepSizes, run_task};
pub use defrag::{
    DefragOptions, DefragReport, DefragRun, DefragSource, DefragStage, Defragmenter, FetchCost,
    Heat, HotChunks, HotDecision, HotState, HotWait, RecordedDefrag, Toll,
};
pub use repair::{ReplicaCounts, ReplicaRepair};
pub use replicate::{
    CopiedSnapshot, CopyCounts, CopyError, CopyLimits, CopyNews, CopyOptions, Replication,
};
pub use report::{TaskBytes, TaskReport, TaskTotals, WorkLeft, share};
pub use schedule::{
    CollectDecision, CollectLimits, CollectMemory, CollectNote, CollectRun, CollectSchedule,
    NextCollect, PoolSpace, Urgency, scrub_due_s,
};
pub use scrub::{ScrubFindings, ScrubNews, ScrubStatus, Scrubber, Unread};
pub use task::{Access, ControlledTask, MaintenanceTask, TaskStep};
