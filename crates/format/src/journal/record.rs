//! Encodes records, and the batches that contain them. The store's journal calls this.
//!
//! Record header:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | magic `QJRN` |
//! | 4 | 1 | kind: 1 write, 2 zero, 3 chunks |
//! | 5 | 3 | zero |
//! | 8 | 4 | bytes of data D, before the seal |
//! | 12 | 4 | zero |
//! | 16 | 16 | volume |
//! | 32 | 8 | first byte of the volume; for chunks, number of the first chunk |
//! | 40 | 8 | bytes of the volume; for chunks, their number |
//! | 48 | 8 | XXH3-64 of the stored data, seeded by kind |
//! | 56 | 8 | XXH3-64 of bytes 0 to 56, seeded by the slot's use and the position |
//!
//! Batch header:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | magic `QJBT` |
//! | 4 | 4 | bytes of header and records, without the padding |
//! | 8 | 8 | its position |
//! | 16 | 8 | everything below this position was durable when the batch was closed |
//! | 24 | 32 | zero |
//! | 56 | 8 | XXH3-64 of bytes 0 to 56, seeded by the slot's use and the position |
//!
//! Invariant: a decoded header is within the limits of `journal`.

use super::{
    BATCH_BYTES_MAX, BATCH_HEADER_BYTES, BLOCK_BYTES, RECORD_ALIGN, RECORD_DATA_BYTES_MAX,
    RECORD_HEADER_BYTES, Seed, TAG_BYTES,
};
use crate::bytes::{Fault, Reader, Result, checksum, verify};
use crate::config::Seal;
use crate::preamble::BlobKind;
use crate::stored::stored;
use units::{JournalPosition, VolumeId};

const RECORD: &str = "journal record";
const BATCH: &str = "journal batch";
const RECORD_MAGIC: u32 = u32::from_le_bytes(*b"QJRN");
const BATCH_MAGIC: u32 = u32::from_le_bytes(*b"QJBT");
/// Bytes that the checksum of either header covers.
const COVERED_BYTES: usize = 56;
/// Bytes that a seal binds: the header up to the checksums.
const BOUND_BYTES: usize = 48;

stored! {
    /// Meaning of a record.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RecordKind: "kind" {
        /// New bytes of a volume. The data are these bytes.
        Write = 1,
        /// Bytes of a volume that are zero now.
        Zero = 2,
        /// Chunks of a volume that are in containers. The data are their fingerprints.
        Chunks = 3,
    }
}

/// Header before a record's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// Meaning of the record.
    pub kind: RecordKind,
    /// Length of its data before the seal, bytes.
    pub data_bytes: u32,
    /// Volume that was written.
    pub volume: VolumeId,
    /// First byte of the volume; for chunks, number of the first chunk.
    pub start: u64,
    /// Number of bytes of the volume; for chunks, their number.
    pub len: u64,
    /// Checksum of the data as stored.
    pub data_checksum: u64,
}

impl RecordHeader {
    /// Returns the reason why no writer writes this header; `None` if it is valid.
    pub fn fault(&self) -> Option<&'static str> {
        let data = u64::from(self.data_bytes);
        let fits = match self.kind {
            RecordKind::Write => data == self.len,
            RecordKind::Zero => data == 0,
            RecordKind::Chunks => self.len.checked_mul(32) == Some(data),
        };
        if !fits || self.len == 0 {
            return Some("length");
        }
        if self.data_bytes as usize > RECORD_DATA_BYTES_MAX {
            return Some("data length");
        }
        self.start.checked_add(self.len).is_none().then_some("end")
    }

    /// Returns the length of the data as stored, bytes.
    pub fn stored_bytes(&self, seal: Seal) -> usize {
        self.data_bytes as usize + tag_bytes(seal)
    }

    /// Returns the distance from this record's start to the next one's, bytes.
    pub fn record_bytes(&self, seal: Seal) -> usize {
        (RECORD_HEADER_BYTES + self.stored_bytes(seal)).next_multiple_of(RECORD_ALIGN)
    }

    /// Returns the bytes that the seal of the data binds. The nonce is the position.
    pub fn associated_data(&self) -> [u8; BOUND_BYTES] {
        let mut bytes = [0; BOUND_BYTES];
        if let Some(bound) = self.fields().first_chunk() {
            bytes = *bound;
        }
        bytes
    }

    /// Computes the checksum of stored data.
    pub fn checksum_data(stored: &[u8]) -> u64 {
        checksum(BlobKind::Journal.seed(), stored)
    }

    /// Fails unless `stored` has the checksum of this header.
    pub fn verify_data(&self, stored: &[u8]) -> Result<()> {
        let seed = BlobKind::Journal.seed();
        verify("journal data", seed, stored, self.data_checksum)
    }

    fn fields(&self) -> [u8; RECORD_HEADER_BYTES] {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        bytes[0..4].copy_from_slice(&RECORD_MAGIC.to_le_bytes());
        bytes[4] = self.kind as u8;
        bytes[8..12].copy_from_slice(&self.data_bytes.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.volume.0);
        bytes[32..40].copy_from_slice(&self.start.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.len.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.data_checksum.to_le_bytes());
        bytes
    }

    /// Encodes the 64 bytes.
    pub fn encode(&self, seed: Seed, at: JournalPosition) -> [u8; RECORD_HEADER_BYTES] {
        sealed_with_sum(self.fields(), seed.record(at))
    }

    /// Decodes at least 64 bytes at this position.
    pub fn decode(bytes: &[u8], seed: Seed, at: JournalPosition) -> Result<Self> {
        let mut r = checked(RECORD, RECORD_MAGIC, bytes, seed.record(at))?;
        let kind = RecordKind::decode(&mut r)?;
        let reserved = r.array::<3>()? != [0; 3];
        let data_bytes = r.u32()?;
        if r.u32()? != 0 || reserved {
            return r.invalid("reserved");
        }
        let header = Self {
            kind,
            data_bytes,
            volume: VolumeId(r.array()?),
            start: r.u64()?,
            len: r.u64()?,
            data_checksum: r.u64()?,
        };
        match header.fault() {
            None => Ok(header),
            Some(field) => r.invalid(field),
        }
    }
}

/// Header before the records of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Length of header and records, without the padding, bytes.
    pub used_bytes: u32,
    /// Its position.
    pub at: JournalPosition,
    /// Everything below this position was durable when the batch was closed.
    pub durable: JournalPosition,
}

impl BatchHeader {
    /// Returns the distance from this batch's start to the next one's, bytes.
    pub fn batch_bytes(&self) -> usize {
        (self.used_bytes as usize).next_multiple_of(BLOCK_BYTES)
    }

    /// Encodes the 64 bytes.
    pub fn encode(&self, seed: Seed) -> [u8; BATCH_HEADER_BYTES] {
        let mut bytes = [0; BATCH_HEADER_BYTES];
        bytes[0..4].copy_from_slice(&BATCH_MAGIC.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.used_bytes.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.at.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.durable.0.to_le_bytes());
        sealed_with_sum(bytes, seed.batch(self.at))
    }

    /// Decodes at least 64 bytes at this position.
    pub fn decode(bytes: &[u8], seed: Seed, at: JournalPosition) -> Result<Self> {
        let mut r = checked(BATCH, BATCH_MAGIC, bytes, seed.batch(at))?;
        let header = Self {
            used_bytes: r.u32()?,
            at: JournalPosition(r.u64()?),
            durable: JournalPosition(r.u64()?),
        };
        let used = header.used_bytes as usize;
        if header.at != at {
            return Err(r.error(Fault::Misplaced));
        }
        if !(BATCH_HEADER_BYTES..=BATCH_BYTES_MAX).contains(&used)
            || !used.is_multiple_of(RECORD_ALIGN)
        {
            return r.invalid("length");
        }
        if header.durable > at {
            return r.invalid("durable position");
        }
        Ok(header)
    }
}

/// Returns the number of bytes that a seal adds.
fn tag_bytes(seal: Seal) -> usize {
    match seal {
        Seal::None => 0,
        Seal::Aes256Gcm => TAG_BYTES,
    }
}

/// Writes the checksum into the last eight bytes of a header.
fn sealed_with_sum(mut bytes: [u8; 64], seed: u64) -> [u8; 64] {
    let (covered, place) = bytes.split_at_mut(COVERED_BYTES);
    place.copy_from_slice(&checksum(seed, covered).to_le_bytes());
    bytes
}

/// Verifies magic and checksum, and returns the fields after the magic.
fn checked<'a>(what: &'static str, magic: u32, bytes: &'a [u8], seed: u64) -> Result<Reader<'a>> {
    let mut whole = Reader::new(what, bytes);
    let covered = whole.take(COVERED_BYTES)?;
    let sum = whole.u64()?;
    let mut r = Reader::new(what, covered);
    if r.u32()? != magic {
        return Err(r.error(Fault::BadMagic));
    }
    verify(what, seed, covered, sum)?;
    Ok(r)
}
