//! Encodes the header of the index: its pool, its size, and whether the rest is complete. The
//! store's index calls this.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 32 | preamble |
//! | 32 | 8 | sequence number of this header |
//! | 40 | 1 | log2 of the bucket count at first |
//! | 41 | 1 | log2 of the bucket count |
//! | 42 | 1 | 1 = clean |
//! | 43 | 5 | zero |
//! | 48 | 8 | entries in all buckets |
//! | 56 | 4 | coverage records |
//! | 60 | 4 | container runs |
//! | 64 | 4 | overflow records |
//! | 68 | 4 | zero |
//! | 72 | 8 | checksum of the tail |
//! | 80 | 424 | zero |
//! | 504 | 8 | checksum of everything before |
//!
//! Invariant: the header is one sector, so a write of it is atomic. The two slots are written
//! alternately: a torn one leaves its predecessor.

use super::Geometry;
use crate::bytes::{Fault, FormatError, Reader, Result, Writer, checksum, verify};
use crate::preamble::{BlobKind, PREAMBLE_BYTES, Preamble};
use units::PoolId;

/// Version that this program reads and writes.
pub const VERSION: u16 = 1;
/// Bytes of a header.
pub const HEADER_BYTES: usize = 512;
/// Distance between the two slots.
pub const HEADER_SLOT_BYTES: u64 = 4096;

const WHAT: &str = "index header";
const SUMMED_BYTES: usize = HEADER_BYTES - 8;

/// A verified (or new) header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexHeader {
    /// Pool of the index.
    pub pool: PoolId,
    /// Grows by one with each header written.
    pub sequence: u64,
    /// Size and addressing.
    pub geometry: Geometry,
    /// True if buckets and tail are as complete as the coverage says. Otherwise none of them may be
    /// used.
    pub clean: bool,
    /// Number of entries in all buckets.
    pub entries: u64,
    /// Number of coverage records in the tail.
    pub coverage: u32,
    /// Number of container runs in the tail.
    pub runs: u32,
    /// Number of overflow records in the tail.
    pub overflow: u32,
    /// Checksum of the tail.
    pub tail_checksum: u64,
}

impl IndexHeader {
    /// Encodes this header.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        Preamble::encode(BlobKind::Index, VERSION, self.pool, &mut w);
        w.u64(self.sequence)
            .u8(self.geometry.base())
            .u8(self.geometry.log2())
            .u8(u8::from(self.clean))
            .bytes(&[0; 5])
            .u64(self.entries)
            .u32(self.coverage)
            .u32(self.runs)
            .u32(self.overflow)
            .u32(0)
            .u64(self.tail_checksum)
            .pad_to(SUMMED_BYTES);
        let sum = checksum(BlobKind::Index.seed(), &w.0);
        w.u64(sum);
        w.0
    }

    /// Verifies and decodes the bytes of a header slot.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let preamble = Preamble::decode(bytes)?.expect(WHAT, BlobKind::Index, VERSION)?;
        let mut r = Reader::new(WHAT, bytes);
        let summed = r.take(SUMMED_BYTES)?;
        verify(WHAT, BlobKind::Index.seed(), summed, r.u64()?)?;
        r.finish()?;

        let mut r = Reader::new(WHAT, summed);
        r.take(PREAMBLE_BYTES)?;
        let sequence = r.u64()?;
        let (base, log2, clean, zero) = (r.u8()?, r.u8()?, r.u8()?, r.array::<5>()?);
        let Some(geometry) = Geometry::new(base, log2) else {
            return r.invalid("bucket count");
        };
        let entries = r.u64()?;
        let (coverage, runs, overflow, zero_too) = (r.u32()?, r.u32()?, r.u32()?, r.u32()?);
        let tail_checksum = r.u64()?;
        let zeroes = zero == [0; 5] && zero_too == 0 && r.rest().iter().all(|b| *b == 0);
        if clean > 1 || entries > geometry.capacity() || !zeroes {
            return r.invalid("field");
        }
        Ok(Self {
            pool: preamble.pool,
            sequence,
            geometry,
            clean: clean == 1,
            entries,
            coverage,
            runs,
            overflow,
            tail_checksum,
        })
    }

    /// Returns the valid header, given the bytes of both slots: the later of those that are whole.
    pub fn newest(slots: [&[u8]; 2]) -> Result<Self> {
        match slots.map(Self::decode) {
            [Ok(a), Ok(b)] => Ok(if a.sequence >= b.sequence { a } else { b }),
            [Ok(one), Err(_)] | [Err(_), Ok(one)] => Ok(one),
            [
                Err(FormatError {
                    fault: Fault::BadMagic,
                    ..
                }),
                Err(other),
            ] => Err(other),
            [Err(first), Err(_)] => Err(first),
        }
    }

    /// Returns the offset of the slot for a header with this sequence number.
    pub fn slot_offset(&self) -> u64 {
        (self.sequence & 1) * HEADER_SLOT_BYTES
    }
}
