//! Copies of a pool in another one: replication, a maintenance task, and repair from a replica. The
//! program calls this.
//!
//! Invariant: as in `maintenance`: bounded steps, and stopping at any moment loses no data.
#![forbid(unsafe_code)]

mod copy;
mod repair;

pub use copy::{
    CopiedSnapshot, CopyCounts, CopyError, CopyLimits, CopyNews, CopyOptions, Replication,
};
pub use repair::{ReplicaCounts, ReplicaRepair};
