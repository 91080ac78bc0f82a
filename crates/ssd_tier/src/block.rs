//! Packs chunks into a cache block, and opens what is read from one. `step`, `scan` and `tier` call
//! this.
//!
//! Invariant: pure. A frame opens only with the fingerprint, sequence number, offset and use that
//! it was packed with.

use crate::class::CacheClass;
use crate::keys::{At, PoolKeys, Use};
use format::bytes::{Result, Writer};
use format::tier::{
    BLOCK_HEADER_BYTES, BlockHeader, ENTRY_BYTES, FRAME_ALIGN, FRAME_HEADER_BYTES, FrameHeader,
    TRAILER_BYTES, TierEntry, frame_bytes, frames_at,
};
use std::ops::Range;
use std::sync::Arc;
use units::{Fingerprint, UnixNanos};

/// A chunk to pack.
pub(crate) type Staged = (Fingerprint, Arc<[u8]>);

/// Returns the bytes of a block that a chunk takes, its directory entry included.
pub(crate) fn packed_bytes(payload_bytes: usize) -> u64 {
    (frame_bytes(payload_bytes) + ENTRY_BYTES) as u64
}

/// Returns the bytes of a block that chunks can take.
pub(crate) fn room_of(block_bytes: u32) -> u64 {
    u64::from(block_bytes).saturating_sub((BLOCK_HEADER_BYTES + FRAME_ALIGN) as u64)
}

/// Returns the bytes that the frames of these chunks take in a block.
pub(crate) fn frames_bytes_of(entries: &[TierEntry]) -> u32 {
    let frames = entries
        .iter()
        .map(|e| frame_bytes(e.payload_bytes as usize));
    frames.sum::<usize>() as u32
}

/// Where a block goes, and what it says of itself.
pub(crate) struct Facts {
    pub slot: u32,
    pub block_bytes: u32,
    pub sequence: u64,
    pub class: CacheClass,
    pub written: UnixNanos,
}

/// Packs chunks, which fit. Returns the block and its directory.
pub(crate) fn pack(
    keys: &dyn PoolKeys,
    by: &Use,
    facts: &Facts,
    chunks: &[Staged],
) -> (Vec<u8>, Vec<TierEntry>) {
    let first = frames_at(chunks.len() as u32) as usize;
    let frames: usize = chunks.iter().map(|(_, c)| frame_bytes(c.len())).sum();
    let mut bytes = Vec::with_capacity(first + frames);
    bytes.resize(first, 0);
    let mut entries = Vec::with_capacity(chunks.len());
    for (fingerprint, chunk) in chunks {
        let offset = bytes.len();
        let entry = TierEntry {
            fingerprint: *fingerprint,
            offset: offset as u32,
            payload_bytes: chunk.len() as u32,
        };
        let header = FrameHeader {
            payload_bytes: entry.payload_bytes,
        };
        bytes.extend_from_slice(&header.encode());
        bytes.extend_from_slice(chunk);
        let at = At {
            sequence: facts.sequence,
            offset: entry.offset,
        };
        let bound = header.bound(facts.sequence, entry.offset, fingerprint);
        let payload = bytes.get_mut(offset + FRAME_HEADER_BYTES..);
        let trailer = by.close(at, &bound, payload.unwrap_or_default());
        bytes.extend_from_slice(&trailer);
        bytes.resize(offset + frame_bytes(chunk.len()), 0);
        entries.push(entry);
    }
    debug_assert!(bytes.len() <= facts.block_bytes as usize, "staging counts");
    let mut header = BlockHeader {
        pool: keys.pool(),
        sequence: facts.sequence,
        written: facts.written,
        salt: by.salt,
        slot: facts.slot,
        block_bytes: facts.block_bytes,
        chunk_count: entries.len() as u32,
        used_bytes: bytes.len() as u32,
        kind: facts.class.kind,
        class: facts.class.io.0,
        seal: by.seal(),
        trailer: [0; TRAILER_BYTES],
    };
    let mut directory = Vec::with_capacity(header.directory_bytes());
    entries
        .iter()
        .for_each(|entry| entry.encode(&mut directory));
    header.trailer = by.close(directory_at(&header), &header.bound(), &mut directory);
    let mut head = Writer::new();
    head.bytes(&header.encode()).bytes(&directory);
    bytes.iter_mut().zip(head.0).for_each(|(to, b)| *to = b);
    (bytes, entries)
}

fn directory_at(header: &BlockHeader) -> At {
    At {
        sequence: header.sequence,
        offset: 0,
    }
}

/// Opens the directory of a block. `None`: its trailer does not agree with the header.
pub(crate) fn open_directory(
    by: &Use,
    header: &BlockHeader,
    stored: &[u8],
) -> Option<Result<Vec<TierEntry>>> {
    let mut closed = [stored, &header.trailer].concat();
    if !by.open(directory_at(header), &header.bound(), &mut closed) {
        return None;
    }
    closed.truncate(stored.len());
    Some(TierEntry::decode_all(&closed, header))
}

/// Opens a frame in place. Returns the chunk's range in it; `None` if it is not this chunk's.
pub(crate) fn open_frame(
    by: &Use,
    at: At,
    fingerprint: &Fingerprint,
    frame: &mut [u8],
) -> Option<Range<usize>> {
    let (header, _, _) = FrameHeader::split(frame).ok()?;
    let payload_end = FRAME_HEADER_BYTES + header.payload_bytes as usize;
    let closed = frame.get_mut(FRAME_HEADER_BYTES..payload_end + TRAILER_BYTES)?;
    let bound = header.bound(at.sequence, at.offset, fingerprint);
    by.open(at, &bound, closed)
        .then_some(FRAME_HEADER_BYTES..payload_end)
}
