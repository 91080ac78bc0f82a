//! The Linux machine as backups see it: which pages of a file are in memory, which mounts there
//! are, when a disk is idle, and snapshots of btrfs; and settings of this process. `archive` and
//! the tools for the machine's own files call this.
//!
//! Invariant: nothing here changes what a file holds. Only [`SubvolumeSnapshot`] makes something: a
//! snapshot, for a while. Only [`sys`] has unsafe code.
#![deny(unsafe_code)]

mod idle;
mod mounts;
mod pages;
pub mod process;
mod snapshot;
mod sys;

pub use idle::{Activity, IdleDisk, IdlePriority, Requests, has_arms};
pub use mounts::{Mount, mount_id, unescaped};
pub use pages::{
    ChunkState, PAGE_BYTES, PageRun, Pages, cached, chunks, fetch, is_memory, release, runs, tells,
    unwritten,
};
pub use snapshot::{SubvolumeSnapshot, is_backup_snapshot};
