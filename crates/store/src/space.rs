//! Finds what is live: marks from the snapshots. Garbage collection, the pool (`stats`) and check
//! call this.
//!
//! Invariant: every unique recipe node and directory is read once, however many snapshots share it.
//! Memory is one to three bits for each stored chunk in containers with live chunks, and queues of
//! bounded length.

mod live;
mod marking;

pub(crate) use live::LiveMap;
pub use marking::MarkCounts;
pub(crate) use marking::{Marking, Sources, Unfollowed};

use chunk_store::Result;
use format::recipe::ObjectRoot;
use format::snapshot::{Snapshot, SnapshotKind};
use format::tree::{Entry, EntryKind};

/// Number of references between two looks at the queues.
const STEP_REFERENCES: u64 = 64 << 10;

/// Marks everything that these snapshots reach.
pub(crate) fn mark_snapshots<'s>(
    marking: &mut Marking,
    sources: &Sources<'_>,
    snapshots: impl IntoIterator<Item = &'s Snapshot>,
) -> Result<()> {
    for snapshot in snapshots {
        marking.push(&snapshot.root, snapshot.kind == SnapshotKind::Tree);
        while marking.is_full() {
            marking.step(sources, STEP_REFERENCES)?;
        }
    }
    while !marking.is_done() {
        marking.step(sources, STEP_REFERENCES)?;
    }
    Ok(())
}

/// Returns the object of an entry and true if it is a directory, or `None` for other entries.
pub(crate) fn below(entry: &Entry) -> Option<(ObjectRoot, bool)> {
    match entry.kind {
        EntryKind::Directory { content } => Some((content, true)),
        EntryKind::File { content, .. } => Some((content, false)),
        _ => None,
    }
}
