//! Computes this pool's fingerprints of the replica's objects, from their bytes; stores nothing.
//! The repair calls this.
//!
//! Invariant: the same objects get the fingerprints that a backup of them would give. Everything
//! below a directory is read, except objects that a neighbour (the same source at another time)
//! shows to be known here.

use super::round::Round;
use crate::copy::{Listing, Pair};
use format::recipe::{Layout, ObjectRoot};
use format::tree::{Entry, EntryKind};
use std::ops::{ControlFlow, Range};
use store::{ObjectBuilder, Result};
use units::Fingerprint;

/// Maximum depth of directories.
const DEPTH_MAX: usize = 256;

/// Returns the replica's directory with fingerprints of this pool; `None` if something below it
/// cannot be read.
pub(super) fn name_directory(
    round: &mut Round<'_>,
    theirs: &ObjectRoot,
    neighbour: Option<Pair>,
    depth: usize,
) -> Result<Option<Vec<u8>>> {
    round.check()?;
    let entries = round.replica.directory(theirs);
    let Some(mut entries) = round.given(entries).filter(|_| depth < DEPTH_MAX) else {
        return Ok(None);
    };
    round.counts.read_bytes += theirs.len;
    let neighbour = neighbour.and_then(|at| Listing::read(at, round.pool.reader(), round.replica));
    for entry in &mut entries {
        let near = neighbour.as_ref().and_then(|listing| listing.pair(entry));
        let (content, is_tree) = match &mut entry.kind {
            EntryKind::File { content, .. } => (content, false),
            EntryKind::Directory { content } => (content, true),
            _ => continue,
        };
        let named = match near {
            _ if content.len == 0 => continue,
            Some(near) if near.there == *content => Some(near.here),
            near if is_tree => match name_directory(round, content, near, depth + 1)? {
                Some(bytes) => Some(round.session.main().name_object(&bytes)?),
                None => None,
            },
            _ => name_object(round, content)?,
        };
        match named {
            Some(named) => *content = named,
            None => return Ok(None),
        }
    }
    Ok(Some(Entry::encode_directory(&entries)))
}

fn name_object(round: &mut Round<'_>, theirs: &ObjectRoot) -> Result<Option<ObjectRoot>> {
    let range = 0..theirs.len;
    let Some(builder) = name_range(round, theirs, range, &mut Vec::new())? else {
        return Ok(None);
    };
    let lane = round.session.main();
    builder
        .finish(&mut |node| Ok(lane.fingerprint(node)))
        .map(Some)
}

/// Adds the replica's chunks in a range to a recipe, by fingerprints of this pool. `top` is the
/// node that was closed last.
pub(super) fn name_range(
    round: &mut Round<'_>,
    theirs: &ObjectRoot,
    range: Range<u64>,
    top: &mut Vec<u8>,
) -> Result<Option<ObjectBuilder>> {
    let mut builder = ObjectBuilder::new(theirs.layout);
    let mut at = range.start;
    while at < range.end {
        round.check()?;
        let Some((mut len, fingerprint)) = name_piece(round, theirs, at)? else {
            return Ok(None);
        };
        len = len.min(range.end - at);
        at += len;
        let lane = round.session.main();
        let mut close = |node: &[u8]| {
            *top = node.to_vec();
            Ok(lane.fingerprint(node))
        };
        // Holes come in their full length; in fixed layout the builder takes them chunk by chunk.
        let chunk_bytes = match theirs.layout {
            Layout::Fixed(log2) => 1 << log2,
            Layout::Variable => len,
        };
        while len > 0 {
            let one = len.min(chunk_bytes);
            builder.push(fingerprint, one, &mut close)?;
            len -= one;
        }
    }
    Ok(Some(builder))
}

/// Returns the piece at `at`: bytes from there to its end, and its fingerprint in this pool.
fn name_piece(
    round: &mut Round<'_>,
    theirs: &ObjectRoot,
    at: u64,
) -> Result<Option<(u64, Fingerprint)>> {
    let mut found = None;
    let visited = round.replica.visit_pieces(
        theirs,
        at,
        at.saturating_add(1),
        &mut |offset, len, fingerprint| {
            found = Some((offset, len, fingerprint));
            Ok(ControlFlow::Break(()))
        },
    );
    let Some((offset, len, fingerprint)) = round.given(visited).and(found) else {
        return Ok(None);
    };
    let rest = offset.saturating_add(len).saturating_sub(at);
    if fingerprint.is_hole() {
        return Ok(Some((rest, Fingerprint::HOLE)));
    }
    // Only a hole may be cut.
    if offset != at {
        return Ok(None);
    }
    let read = round.replica.piece(theirs, &fingerprint, len);
    let Some(chunk) = round.given(read) else {
        return Ok(None);
    };
    round.counts.read_bytes += chunk.len() as u64;
    Ok(Some((rest, round.session.main().fingerprint(&chunk))))
}
