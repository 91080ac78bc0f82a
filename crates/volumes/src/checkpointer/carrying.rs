//! Carries forward writes that a checkpoint cannot take, or leaves in the journal because they
//! matter: appends them to the journal again, so that their old slots become free.
//!
//! Checkpoints call this.
//! Invariant: a part is appended only where no newer write is, behind the gate, and keeps its age:
//! replay yields the same bytes with and without it. A flush precedes the commit that drops the old
//! records.

use super::super::kept::is_damage;
use super::super::live::{LiveVolume, PAGE_BYTES};
use super::super::losses::Losses;
use super::super::overlay::{DirectChunks, Overlay, Piece, Source};
use journal::{Journal, Record};
use page_cache::PageCache;
use std::ops::Range;
use std::sync::Arc;
use store::Result;

/// Journal to append to, and record of lost bytes.
pub(super) struct Destination<'a> {
    pub journal: &'a Journal,
    pub losses: &'a Losses,
    /// Keeps the pages in memory under their new positions; `None`: they leave.
    pub pages: Option<&'a PageCache>,
}

/// Carries forward the frozen pieces of a range.
pub(super) fn carry(
    to: &Destination<'_>,
    volume: &LiveVolume,
    frozen: &Overlay,
    range: &Range<u64>,
) -> Result<()> {
    let mut pieces = Vec::new();
    frozen.visit(range.start, range.end, |piece| pieces.push(piece));
    for piece in pieces {
        let bytes = match &piece.source {
            Source::Record { .. } => Some(bytes_of(to, volume, &piece)?),
            _ => None,
        };
        {
            let _shut = volume.shut();
            for part in uncovered(volume, &piece) {
                append(to, volume, &piece, &part, bytes.as_ref())?;
            }
        }
        // After the volume's locks are released.
        to.journal.write_out()?;
    }
    Ok(())
}

/// Reads the bytes of a piece; `None` if they are lost.
fn bytes_of(to: &Destination<'_>, volume: &LiveVolume, piece: &Piece) -> Result<Option<Vec<u8>>> {
    let mut bytes = vec![0; usize::try_from(piece.len).unwrap_or_default()];
    match volume.fill_piece(piece, &mut bytes) {
        Ok(()) => Ok(Some(bytes)),
        Err(e) if is_damage(&e) => {
            to.losses.note(volume.id, piece, &e)?;
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

/// Returns the parts of a piece that no newer write covers.
fn uncovered(volume: &LiveVolume, piece: &Piece) -> Vec<Piece> {
    let (mut at, mut parts) = (piece.offset, Vec::new());
    let state = volume.state();
    state.active.visit(piece.offset, piece.end(), |newer| {
        parts.extend(piece.clip(at, newer.offset));
        at = newer.end();
    });
    parts.extend(piece.clip(at, piece.end()));
    parts
}

fn append(
    to: &Destination<'_>,
    volume: &LiveVolume,
    whole: &Piece,
    part: &Piece,
    bytes: Option<&Option<Vec<u8>>>,
) -> Result<()> {
    match (&part.source, bytes) {
        (Source::Zero, _) => {
            let record = Record::Zero {
                volume: volume.id,
                offset_bytes: part.offset,
                len_bytes: part.len,
            };
            enter(to, volume, part, &record, Source::Zero)
        }
        (Source::Record { .. }, Some(Some(bytes))) => {
            let skip = (part.offset - whole.offset) as usize;
            let data = bytes.get(skip..skip + part.len as usize);
            append_data(to, volume, part, data.unwrap_or_default())
        }
        (Source::Chunks(chunks), _) => append_chunks(to, volume, part, chunks),
        (Source::Record { .. } | Source::Lost, _) => {
            enter_lost(to, volume, part);
            Ok(())
        }
    }
}

fn append_data(to: &Destination<'_>, volume: &LiveVolume, part: &Piece, data: &[u8]) -> Result<()> {
    let record = Record::Write {
        volume: volume.id,
        offset_bytes: part.offset,
        data,
    };
    let class = part.class();
    enter(to, volume, part, &record, Source::Record { skip: 0, class })
}

/// Carries whole chunks by their fingerprints, and the partial chunks at both ends by their bytes.
fn append_chunks(
    to: &Destination<'_>,
    volume: &LiveVolume,
    part: &Piece,
    chunks: &DirectChunks,
) -> Result<()> {
    let chunk_bytes = volume.chunk_bytes();
    let first = part.offset.next_multiple_of(chunk_bytes).min(part.end());
    let last = (part.end() & !(chunk_bytes - 1)).max(first);
    for rest in [part.clip(part.offset, first), part.clip(last, part.end())] {
        let Some(rest) = rest else { continue };
        match bytes_of(to, volume, &rest)? {
            Some(bytes) => append_data(to, volume, &rest, &bytes)?,
            None => enter_lost(to, volume, &rest),
        }
    }
    let Some(middle) = part.clip(first, last) else {
        return Ok(());
    };
    let fingerprints: Arc<[_]> = (0..middle.len)
        .step_by(chunk_bytes as usize)
        .map(|at| Ok(chunks.at(first - part.offset + at)?.0))
        .collect::<Result<_>>()?;
    let record = Record::Chunks {
        volume: volume.id,
        chunk_first: first >> volume.log2,
        fingerprints: &fingerprints,
    };
    let source = Source::Chunks(DirectChunks {
        fingerprints: Arc::clone(&fingerprints),
        log2: volume.log2,
        skip: 0,
    });
    enter(to, volume, &middle, &record, source)
}

fn enter(
    to: &Destination<'_>,
    volume: &LiveVolume,
    part: &Piece,
    record: &Record<'_>,
    source: Source,
) -> Result<()> {
    let position = to.journal.append_kept(record)?;
    volume.state_mut().active.insert(Piece {
        offset: part.offset,
        len: part.len,
        position,
        source,
    });
    if let Some(pages) = to.pages {
        for page in part.offset.div_ceil(PAGE_BYTES)..part.end() / PAGE_BYTES {
            pages.renumber_dirty(volume.object, page, part.position.0, position.0);
        }
    }
    Ok(())
}

/// Marks a part as lost: reads fail until it is written again. The journal is not needed for it.
fn enter_lost(to: &Destination<'_>, volume: &LiveVolume, part: &Piece) {
    volume.state_mut().active.insert(Piece {
        offset: part.offset,
        len: part.len,
        position: to.journal.head(),
        source: Source::Lost,
    });
}
