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
//! [`Source`]. Memory is at most about [`Options::memory_bytes_max`]; a step ends with its
//! [`Budget`]; a part that costs too much is given up. Damaged, changing or hostile file systems
//! make blocks [`Contents::Unknown`], never an error.
#![forbid(unsafe_code)]

mod btrfs;
mod budget;
mod bytes;
mod contents;
mod dirty;
mod ext;
mod file_system;
pub mod fuzzing;
pub mod hostile;
mod lvm;
mod ntfs;
mod part;
mod partitions;
mod probe;
mod runs;
mod slices;
mod source;
mod volume;
mod xfs;

/// The blocks of a write to a journal that belong to the journal itself, with their offsets in the
/// write. `interest` says where its blocks are.
pub fn journal_blocks(
    bytes: &[u8],
    block_bytes: u32,
    skip_bytes: u64,
) -> impl Iterator<Item = (u64, &[u8])> {
    let skip = usize::try_from(skip_bytes).unwrap_or(usize::MAX);
    let blocks = bytes.get(skip..).unwrap_or_default();
    let blocks = blocks.chunks_exact(block_bytes.max(1) as usize);
    let offsets = (0_u64..).map(move |n| skip_bytes + n * u64::from(block_bytes));
    offsets
        .zip(blocks)
        .filter(|(_, block)| block.starts_with(&ext::JOURNAL_MAGIC))
}

pub use budget::Budget;
pub use contents::Contents;
pub use file_system::Interest;
pub use source::{Unreadable, VolumeSource};
pub use volume::{Counters, Layout, Options, Piece, Progress};
