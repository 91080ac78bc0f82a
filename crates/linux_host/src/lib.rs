//! The Linux host as a source of page events: which pages of which files are in memory and dirty.
//! The program calls this for `quintet host`; the events feed Duet's sessions.
//!
//! Invariant: nothing here changes what a file holds or which pages are cached. Only [`sys`] has
//! unsafe code.
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

mod ebpf;
mod identity;
mod mirror;
mod mounts;
mod pages;
mod scan;
mod sys;
mod watch;

pub use ebpf::{Ebpf, EbpfError, HOOKS, Hook};
pub use identity::{FileId, Identities};
pub use mirror::{Mirror, Moved};
pub use mounts::Mount;
pub use pages::{PAGE_BYTES, Pages, cached};
pub use scan::{Found, Walked, walk};
pub use watch::{Drained, Watch};
