//! Replays the journal into overlays when volumes are opened.
//!
//! [`Volumes::open`](crate::Volumes::open) calls this.
//! Invariant: a record is entered unless its volume was deleted or its root holds the write. Chunks
//! that were not durable are skipped.

use super::live::layout_log2;
use super::overlay::{DirectChunks, Overlay, Piece, Source};
use format::volume::VolumeRecord;
use journal::Record;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::Result;
use units::{Fingerprint, JournalPosition, VolumeId};

/// Enters one record of the journal, unless the volume was deleted or its root holds the write.
pub(super) fn enter(
    overlays: &mut BTreeMap<VolumeId, (VolumeRecord, Overlay)>,
    position: JournalPosition,
    record: &Record<'_>,
    holds: &dyn Fn(&Fingerprint) -> Result<bool>,
) -> Result<()> {
    let (volume, offset, len, source) = match record {
        Record::Write {
            volume,
            offset_bytes,
            data,
        } => (
            volume,
            *offset_bytes,
            data.len() as u64,
            Source::Record {
                skip: 0,
                class: None,
            },
        ),
        Record::Zero {
            volume,
            offset_bytes,
            len_bytes,
        } => (volume, *offset_bytes, *len_bytes, Source::Zero),
        Record::Chunks {
            volume,
            chunk_first,
            fingerprints,
        } => {
            let Some((record, overlay)) = overlays.get_mut(volume) else {
                return Ok(());
            };
            if position >= record.applied {
                enter_chunks(record, overlay, position, *chunk_first, fingerprints, holds)?;
            }
            return Ok(());
        }
    };
    let Some((record, overlay)) = overlays.get_mut(volume) else {
        return Ok(());
    };
    if position < record.applied {
        return Ok(());
    }
    let piece = Piece {
        offset,
        len,
        position,
        source,
    };
    piece
        .clip(0, record.root.len)
        .into_iter()
        .for_each(|piece| overlay.insert(piece));
    Ok(())
}

/// Enters the chunks that are stored. A missing chunk was not flushed: its record reached the disk
/// before its container. The older bytes of its range are intact.
fn enter_chunks(
    record: &VolumeRecord,
    overlay: &mut Overlay,
    position: JournalPosition,
    chunk_first: u64,
    fingerprints: &[Fingerprint],
    holds: &dyn Fn(&Fingerprint) -> Result<bool>,
) -> Result<()> {
    let log2 = layout_log2(record);
    let all: Arc<[Fingerprint]> = fingerprints.into();
    for (number, fingerprint) in (0u64..).zip(fingerprints) {
        if !fingerprint.is_hole() && !holds(fingerprint)? {
            continue;
        }
        let chunks = DirectChunks {
            fingerprints: Arc::clone(&all),
            log2,
            skip: (number << log2) as u32,
        };
        let piece = Piece {
            offset: chunk_first.saturating_add(number) << log2,
            len: 1 << log2,
            position,
            source: Source::Chunks(chunks),
        };
        piece
            .clip(0, record.root.len)
            .into_iter()
            .for_each(|piece| overlay.insert(piece));
    }
    Ok(())
}
