//! Encodes the cache blocks of the fast tier: runs of chunks of one class on a faster device, each
//! of which describes itself. The tier calls this.
//!
//! ```text
//! block = header 128 | directory entry 40 | ... | zeroes up to 16 | frame | frame | ...
//! frame = frame header 16 | payload | trailer 16 | zeroes up to a multiple of 16
//! ```
//!
//! A trailer is the tag of AES-256-GCM in a sealed pool. Otherwise it is an XXH3-64 and eight zero
//! bytes. Both cover what the bytes are and where they belong: the pool, the use of the tier (its
//! salt), the block's sequence number, the offset, the fingerprint.
//!
//! Invariant: no I/O and no keys. A torn, moved, foreign or older block never passes for another:
//! the header names its slot and its pool, and nothing of a block is believed without a trailer
//! that agrees with the header.

use crate::bytes::{Fault, Reader, Result, Writer, checksum, verify};
use crate::config::Seal;
use crate::preamble::{BlobKind, PREAMBLE_BYTES, Preamble};
use crate::stored::stored;
use units::{Fingerprint, PoolId, UnixNanos};

/// Version of this layout. 1: 2026-11, first.
pub const TIER_VERSION: u16 = 1;
/// Size of a block's header, bytes.
pub const BLOCK_HEADER_BYTES: usize = 128;
/// Size of a directory entry, bytes.
pub const ENTRY_BYTES: usize = 40;
/// Size of a frame's header, bytes.
pub const FRAME_HEADER_BYTES: usize = 16;
/// Size of a trailer, bytes.
pub const TRAILER_BYTES: usize = 16;
/// Alignment of frames, and the unit of their offsets.
pub const FRAME_ALIGN: usize = 16;
/// Smallest block, bytes.
pub const BLOCK_BYTES_MIN: u32 = 64 << 10;
/// Largest block, bytes.
pub const BLOCK_BYTES_MAX: u32 = 16 << 20;
/// Longest chunk that a frame holds, bytes.
pub const CHUNK_BYTES_MAX: usize = 1 << 20;

const WHAT: &str = "cache block";
const FRAME: &str = "frame of a cache block";
const FRAME_MAGIC: u32 = u32::from_le_bytes(*b"QTFR");
/// Bytes of the header that the directory's trailer covers: those before it.
const BOUND_BYTES: usize = 104;
const COVERED_BYTES: usize = BLOCK_HEADER_BYTES - 8;
const _: () = assert!(BOUND_BYTES + TRAILER_BYTES == COVERED_BYTES);

stored! {
    /// Kind of a block's chunks.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum TierKind: "kind" {
        /// Chunks of user data.
        Data = 0,
        /// Recipe nodes and other chunks of metadata.
        Recipe = 1,
        /// Directories of containers.
        Directory = 2,
    }
}

impl TierKind {
    /// All kinds, by number.
    pub const ALL: [Self; 3] = [Self::Data, Self::Recipe, Self::Directory];
}

/// Seeds the checksums of one use of the tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierSeed(u64);

impl TierSeed {
    /// Makes the seed of the use with this salt.
    pub fn new(pool: PoolId, salt: &[u8; 32]) -> Self {
        let mut named = [0; 48];
        let (first, second) = named.split_at_mut(16);
        first.copy_from_slice(&pool.0);
        second.copy_from_slice(salt);
        Self(checksum(BlobKind::TierBlock.seed(), &named))
    }

    /// Returns the trailer of `payload`, which `bound` describes, in a pool that is not sealed.
    pub fn trailer(self, bound: &[u8], payload: &[u8]) -> [u8; TRAILER_BYTES] {
        let sum = checksum(checksum(self.0, bound), payload);
        let mut trailer = [0; TRAILER_BYTES];
        if let Some(first) = trailer.first_chunk_mut() {
            *first = sum.to_le_bytes();
        }
        trailer
    }
}

/// Header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    /// The pool it belongs to.
    pub pool: PoolId,
    /// Number of the block in its use of the tier. With the salt, never given twice.
    pub sequence: u64,
    /// When it was written. Orders evictions.
    pub written: UnixNanos,
    /// Random; one for each use of the tier. The key and the seed derive from it.
    pub salt: [u8; 32],
    /// Number of its slot.
    pub slot: u32,
    /// Size of all slots, bytes.
    pub block_bytes: u32,
    /// Number of chunks.
    pub chunk_count: u32,
    /// Length of the block up to the end of its last frame, bytes.
    pub used_bytes: u32,
    /// Kind of its chunks.
    pub kind: TierKind,
    /// I/O class of its chunks; 0 unless they are data.
    pub class: u8,
    /// Encryption of directory and frames.
    pub seal: Seal,
    /// Trailer of the directory.
    pub trailer: [u8; TRAILER_BYTES],
}

impl BlockHeader {
    /// Encodes the header.
    pub fn encode(&self) -> [u8; BLOCK_HEADER_BYTES] {
        let mut w = self.before_trailer();
        w.bytes(&self.trailer);
        let sum = checksum(BlobKind::TierBlock.seed(), &w.0);
        w.u64(sum);
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        debug_assert_eq!(w.0.len(), bytes.len());
        bytes.iter_mut().zip(w.0).for_each(|(to, from)| *to = from);
        bytes
    }

    /// Returns what the directory's trailer covers besides the directory.
    pub fn bound(&self) -> Vec<u8> {
        self.before_trailer().0
    }

    fn before_trailer(&self) -> Writer {
        let mut w = Writer::new();
        Preamble::encode(BlobKind::TierBlock, TIER_VERSION, self.pool, &mut w);
        w.u64(self.sequence)
            .i64(self.written.0)
            .bytes(&self.salt)
            .u32(self.slot)
            .u32(self.block_bytes)
            .u32(self.chunk_count)
            .u32(self.used_bytes)
            .u8(self.kind as u8)
            .u8(self.class)
            .u8(self.seal as u8)
            .bytes(&[0; 5]);
        w
    }

    /// Decodes a header and checks that it belongs to this pool and slot.
    pub fn decode(bytes: &[u8], pool: PoolId, slot: u32, block_bytes: u32) -> Result<Self> {
        let preamble = Preamble::decode(bytes)?.expect(WHAT, BlobKind::TierBlock, TIER_VERSION)?;
        let mut r = Reader::new(WHAT, bytes);
        let covered = r.take(COVERED_BYTES)?;
        verify(WHAT, BlobKind::TierBlock.seed(), covered, r.u64()?)?;
        let mut r = Reader::new(WHAT, covered);
        r.take(PREAMBLE_BYTES)?;
        let (sequence, written, salt) = (r.u64()?, UnixNanos(r.i64()?), r.array()?);
        let (found_slot, found_bytes) = (r.u32()?, r.u32()?);
        if preamble.pool != pool || found_slot != slot || found_bytes != block_bytes {
            return Err(r.error(Fault::Misplaced));
        }
        let (chunk_count, used_bytes) = (r.u32()?, r.u32()?);
        let kind = TierKind::decode(&mut r)?;
        let class = r.u8()?;
        if class != 0 && kind != TierKind::Data {
            return r.invalid("class");
        }
        let seal = Seal::decode(&mut r)?;
        if r.array::<5>()? != [0; 5] {
            return r.invalid("reserved");
        }
        let header = Self {
            pool,
            sequence,
            written,
            salt,
            slot,
            block_bytes,
            chunk_count,
            used_bytes,
            kind,
            class,
            seal,
            trailer: r.array()?,
        };
        let is_possible = (BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&block_bytes)
            && used_bytes <= block_bytes
            && header.frames_at() <= u64::from(used_bytes);
        match is_possible {
            true => Ok(header),
            false => r.invalid("length"),
        }
    }

    /// Returns the length of the directory, bytes.
    pub fn directory_bytes(&self) -> usize {
        (self.chunk_count as usize).saturating_mul(ENTRY_BYTES)
    }

    /// Returns the offset of the first frame.
    pub fn frames_at(&self) -> u64 {
        frames_at(self.chunk_count)
    }
}

/// Returns the offset of the first frame in a block of that many chunks.
pub fn frames_at(chunk_count: u32) -> u64 {
    let bytes = BLOCK_HEADER_BYTES as u64 + u64::from(chunk_count) * ENTRY_BYTES as u64;
    bytes.next_multiple_of(FRAME_ALIGN as u64)
}

/// Returns the length of the frame of a payload, bytes.
pub fn frame_bytes(payload_bytes: usize) -> usize {
    (FRAME_HEADER_BYTES + TRAILER_BYTES)
        .saturating_add(payload_bytes)
        .next_multiple_of(FRAME_ALIGN)
}

/// One chunk of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierEntry {
    /// The chunk.
    pub fingerprint: Fingerprint,
    /// Offset of its frame in the block, bytes.
    pub offset: u32,
    /// Length of its payload, bytes.
    pub payload_bytes: u32,
}

impl TierEntry {
    /// Appends the entry.
    pub fn encode(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.fingerprint.0);
        to.extend_from_slice(&self.offset.to_le_bytes());
        to.extend_from_slice(&self.payload_bytes.to_le_bytes());
    }

    /// Decodes the directory of a block. Its trailer was verified.
    pub fn decode_all(bytes: &[u8], header: &BlockHeader) -> Result<Vec<Self>> {
        let mut r = Reader::new(WHAT, bytes);
        let count = header.chunk_count as usize;
        if bytes.len() != header.directory_bytes() {
            return r.invalid("length");
        }
        let mut entries = Vec::with_capacity(count);
        let mut free_from = header.frames_at();
        while !r.is_empty() {
            let entry = Self {
                fingerprint: Fingerprint(r.array()?),
                offset: r.u32()?,
                payload_bytes: r.u32()?,
            };
            let len = entry.payload_bytes as usize;
            let end = u64::from(entry.offset) + frame_bytes(len) as u64;
            let is_possible = (1..=CHUNK_BYTES_MAX).contains(&len)
                && !entry.fingerprint.is_hole()
                && (entry.offset as usize).is_multiple_of(FRAME_ALIGN)
                && u64::from(entry.offset) >= free_from
                && end <= u64::from(header.used_bytes);
            if !is_possible {
                return r.invalid("entry");
            }
            free_from = end;
            entries.push(entry);
        }
        Ok(entries)
    }
}

/// Header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Length of the payload, bytes.
    pub payload_bytes: u32,
}

impl FrameHeader {
    /// Encodes the header.
    pub fn encode(self) -> [u8; FRAME_HEADER_BYTES] {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        let fields = FRAME_MAGIC.to_le_bytes().into_iter();
        let fields = fields.chain(self.payload_bytes.to_le_bytes());
        bytes.iter_mut().zip(fields).for_each(|(to, b)| *to = b);
        bytes
    }

    /// Splits a frame into header, payload and trailer. Zeroes at its end do not matter.
    pub fn split(frame: &[u8]) -> Result<(Self, &[u8], [u8; TRAILER_BYTES])> {
        let mut r = Reader::new(FRAME, frame);
        if r.u32()? != FRAME_MAGIC {
            return Err(r.error(Fault::BadMagic));
        }
        let header = Self {
            payload_bytes: r.u32()?,
        };
        if r.array::<8>()? != [0; 8] {
            return r.invalid("reserved");
        }
        let len = header.payload_bytes as usize;
        if !(1..=CHUNK_BYTES_MAX).contains(&len) || frame_bytes(len) != frame.len() {
            return r.invalid("length");
        }
        Ok((header, r.take(len)?, r.array()?))
    }

    /// Returns what the frame's trailer covers besides the payload.
    pub fn bound(self, sequence: u64, offset: u32, fingerprint: &Fingerprint) -> [u8; 64] {
        let mut bytes = [0; 64];
        let fields = self.encode().into_iter();
        let fields = fields.chain(sequence.to_le_bytes());
        let fields = fields.chain(offset.to_le_bytes());
        let fields = fields.chain(fingerprint.0);
        bytes.iter_mut().zip(fields).for_each(|(to, b)| *to = b);
        bytes
    }
}

#[cfg(test)]
mod tests;
