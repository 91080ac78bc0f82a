//! The Linux host as a source of page events (which pages of which files are in memory and dirty),
//! and FragPicker on its file systems: which ranges of files are requested, where they lie, and
//! moving them into one piece. `host_tasks` and the program call this for `quintet host`; the
//! events feed Duet's sessions.
//!
//! Invariant: nothing here changes what a file holds, and only [`migrate`] changes where it lies.
//! Watching changes nothing at all. Only [`sys`] has unsafe code.
//!
//! ```text
//! kernel --eBPF, chunks of 64 pages--> Ebpf --drain--+
//!                                                    +--> Watch: Mirror --record--> Duet
//! cachestat --------------------------> scan --------+
//! ```
//!
//! [`Watch`] takes events from eBPF where it can, and compares states by `cachestat` where it
//! cannot; it says which ([`Watch::polls_because`]). Either way a file is a [`FileId`].
//!
//! ```text
//! kernel --eBPF, accesses--> Tracer --HostTrace, a file--> HotRanges --plan_span--> FileDefrag
//! ```
#![deny(unsafe_code)]

mod accesses;
mod defragment;
mod ebpf;
mod extents;
mod hot;
mod identity;
mod medium;
mod migrate;
mod mirror;
mod planning;
mod scan;
mod sys;
mod tracing;
mod watch;

pub use defragment::{FileDefrag, Limits, Report, STEP_BYTES, Skipped, defragment_file};
pub use ebpf::{Ebpf, EbpfError, HOOKS, Hook};
pub use extents::{Class, FileExtent, FileLayout, Histogram, extents, fragments};
pub use hot::{HotError, HotRanges};
pub use identity::{FileId, Identities};
pub use medium::{FileState, Medium, MediumRead, Way};
pub use migrate::{Migrated, MigrationError, PIECE_BYTES, Pacer, Target};
pub use mirror::{Mirror, Moved};
pub use planning::{JOINED_BYTES_MAX, SpanOptions, SpanPlan, Wanted, plan_span};
pub use scan::{FoundFile, Walked, WalkedFile, Walker, walk, walk_once};
pub use tracing::{TraceError, Traced, Tracer};
pub use watch::{Drained, Watch};
