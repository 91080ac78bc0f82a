//! What a checkpoint cannot take is appended to the journal again, so that the slots that held it
//! are free.
//!
//! Invariant: a part is appended where nothing newer is, behind the gate, and is as new as it was:
//! replay gives the same bytes with and without it. The commit that passes over the old records is
//! made after a flush. Called by rounds.

use super::super::kept::is_damage;
use super::super::live::LiveVolume;
use super::super::losses::Losses;
use super::super::overlay::{DirectChunks, Overlay, Piece, Source};
use crate::journal::{Journal, Record};
use std::ops::Range;
use std::sync::Arc;
use store::Result;

/// Where it is appended, and who is told what of it is lost.
pub(super) struct Destination<'a> {
    pub journal: &'a Journal,
    pub losses: &'a Losses,
}

/// Carries what `frozen` has of a range.
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
        // Behind no lock of the volume.
        to.journal.write_out()?;
    }
    Ok(())
}

/// The bytes of a piece; `None` if they are lost.
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

/// Where nothing newer covers the piece.
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
    enter(to, volume, part, &record, Source::Record { skip: 0 })
}

/// Whole chunks by their fingerprints, what is left at the ends by its bytes.
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
        .map(|at| chunks.at(first - part.offset + at).0)
        .collect();
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
    Ok(())
}

/// Reads of it fail until it is written again; nothing of the journal is needed for it.
fn enter_lost(to: &Destination<'_>, volume: &LiveVolume, part: &Piece) {
    volume.state_mut().active.insert(Piece {
        offset: part.offset,
        len: part.len,
        position: to.journal.head(),
        source: Source::Lost,
    });
}
