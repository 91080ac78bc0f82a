//! What is live: marking from the snapshots, and what could be reclaimed.
//!
//! Invariant: every unique recipe node and directory is read once, however many snapshots share
//! it. Memory is a bit or two for each stored chunk, and queues of bounded length. Called by the collector, pool (`stats`)
//! and check.

mod live;
mod marking;

pub(crate) use live::LiveMap;
pub use marking::MarkCounts;
pub(crate) use marking::{Marking, Sources, Unfollowed};

use chunk_store::Result;
use format::recipe::ObjectRoot;
use format::snapshot::{Snapshot, SnapshotKind};
use format::tree::{Entry, EntryKind};

/// References between two looks at what waits.
const STEP_REFERENCES: u64 = 64 << 10;

/// Marks all that these snapshots reach.
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

/// The object that an entry points at, and whether it is a directory.
pub(crate) fn below(entry: &Entry) -> Option<(ObjectRoot, bool)> {
    match entry.kind {
        EntryKind::Directory { content } => Some((content, true)),
        EntryKind::File { content, .. } => Some((content, false)),
        _ => None,
    }
}
