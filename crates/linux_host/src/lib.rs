//! The Linux host as a source of page events (which pages of which files are in memory and dirty),
//! and FragPicker on its file systems: where files lie, and moving ranges of them into one piece.
//! The program calls this for `quintet host`, and backups read what is in memory first; the events
//! feed Duet's sessions.
//!
//! Invariant: nothing here changes what a file holds, only [`migrate`] changes where it lies, and
//! only [`snapshot`] makes something: a snapshot, for a while. Watching changes nothing at all.
//! Only [`sys`] has unsafe code.
//!
//! ```text
//! kernel --eBPF, chunks of 64 pages--> Ebpf --drain--+
//!                                                    +--> Watch: Mirror --record--> Duet
//! cachestat --------------------------> scan --------+
//! ```
//!
//! [`Watch`] takes events from eBPF where it can, and compares states by `cachestat` where it
//! cannot; it says which ([`Watch::polls_because`]). Either way a file is a [`FileId`].
#![deny(unsafe_code)]

mod defragment;
mod ebpf;
mod extents;
mod identity;
mod idle;
mod migrate;
mod mirror;
mod mounts;
mod pages;
mod planning;
mod scan;
mod snapshot;
mod sys;
mod watch;

pub use defragment::{FileDefrag, Limits, Report, STEP_BYTES, Skipped, defragment_file};
pub use ebpf::{Ebpf, EbpfError, HOOKS, Hook};
pub use extents::{Class, Extent, FileLayout, Histogram, extents, fragments};
pub use identity::{FileId, Identities};
pub use idle::{Activity, IdlePriority, Requests};
pub use migrate::{Migrated, MigrationError, Target};
pub use mirror::{Mirror, Moved};
pub use mounts::Mount;
pub use pages::{PAGE_BYTES, Pages, Run, cached, fetch, release, runs, tells};
pub use planning::{SpanPlan, plan_span};
pub use scan::{Found, Walked, walk};
pub use snapshot::{SubvolumeSnapshot, is_backup_snapshot};
pub use watch::{Drained, Watch};
