//! Says what each block of a volume is for, read from the file systems inside it and kept current
//! from the writes we see (Differentiated Storage Services, SOSP'11, for guests without a patched
//! kernel). A front end asks [`Layout::at`] for each request and calls [`Layout::wrote`] with each
//! write; a background task calls [`Layout::step`] while it answers [`Progress::More`].
//!
//! ```text
//! step -> partitions -> file systems -> map          wrote -> dirty metadata -> step
//! ```
//!
//! Invariant: pure, bounded and never in the way. No threads, no clock; bytes come through
//! [`Source`]. Memory is near [`Options::memory_bytes_max`], a step makes few reads. Damaged,
//! changing or hostile file systems make blocks [`Contents::Unknown`], never an error.

mod btrfs;
mod bytes;
mod ext;
mod file_system;
pub mod fuzzing;
mod lvm;
mod ntfs;
mod partitions;
mod runs;
mod source;
mod volume;
mod xfs;

#[cfg(doc)]
use crate::facts::Contents;
pub use source::{Source, Unreadable};
pub use volume::{Counters, Layout, Options, Piece, Progress};
