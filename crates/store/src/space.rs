//! What is live: marking from the snapshots, and what could be reclaimed.
//!
//! Invariant: every unique recipe node and directory is read once, however many snapshots share
//! it. Memory is one set of fingerprints: this counts for people, the collector has its own way.
//! Called by pool (`stats`) and check.

mod live;
mod marking;

pub(crate) use live::LiveContainer;
pub use marking::MarkCounts;
pub(crate) use marking::{Marking, Sources};

use crate::chunk_map::{FingerprintMap, FingerprintSet};
use crate::error::{Result, StoreError};
use crate::read_path::Reader;
use crate::recipe::visit_nodes;
use format::recipe::ObjectRoot;
use format::tree::{Entry, EntryKind};
use units::Fingerprint;

/// What a mark found.
#[derive(Default)]
pub(crate) struct Marked {
    /// Data chunks and nodes that something reaches, with plain length where known (chunks).
    pub chunks: FingerprintMap<u64>,
    /// Directory objects done.
    directories: FingerprintSet,
}

/// Marks everything below an object. `is_tree` says that its bytes are a directory. Damage is
/// handed to `damage`; what lies below it stays unmarked.
pub(crate) fn mark_object(
    reader: &Reader,
    root: &ObjectRoot,
    is_tree: bool,
    marked: &mut Marked,
    damage: &mut dyn FnMut(&Fingerprint, StoreError) -> Result<()>,
) -> Result<()> {
    // A stack of our own: trees may be as deep as paths are long.
    let mut rest = vec![(*root, is_tree)];
    while let Some((root, is_tree)) = rest.pop() {
        match mark_nodes(reader, &root, marked) {
            Err(e) if e.is_corruption() => {
                damage(&root.fingerprint, e)?;
                continue;
            }
            other => other?,
        }
        if !is_tree || root.len == 0 || !marked.directories.insert(root.fingerprint) {
            continue;
        }
        match reader.directory(&root) {
            Err(e) if e.is_corruption() => damage(&root.fingerprint, e)?,
            Err(e) => return Err(e),
            Ok(entries) => rest.extend(entries.iter().filter_map(below)),
        }
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

fn mark_nodes(reader: &Reader, root: &ObjectRoot, marked: &mut Marked) -> Result<()> {
    let mut load = |f: &Fingerprint| reader.recipe_node(f);
    let chunks = &mut marked.chunks;
    visit_nodes(root, &mut load, &mut |at, _| {
        Ok(chunks.insert(at.fingerprint, at.len).is_none())
    })
}
