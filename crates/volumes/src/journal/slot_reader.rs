//! Headers of batches and records by their positions, and the search for the next good one.
//!
//! Invariant: what is returned verified at its place and ends within its slot; every search goes
//! forward and ends at a given position. Called by `replay`.

use super::slot_bytes::SlotBytes;
use super::slot_use::SlotUse;
use format::bytes::{Fault, FormatError};
use format::journal::{
    BATCH_HEADER_BYTES, BLOCK_BYTES, BatchHeader, RECORD_ALIGN, RECORD_HEADER_BYTES, RecordHeader,
};
use store::Result;
use units::JournalPosition;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// A header, or what is wrong with it.
type Verified<T> = std::result::Result<T, FormatError>;

/// See the module's head.
pub(super) struct SlotReader<'a> {
    slot_use: &'a SlotUse,
    bytes: SlotBytes,
}

impl<'a> SlotReader<'a> {
    /// Of one use.
    pub(super) fn new(slot_use: &'a SlotUse, bytes: SlotBytes) -> Self {
        Self { slot_use, bytes }
    }

    /// The batch at a position.
    pub(super) fn batch(&mut self, at: u64) -> Result<Verified<BatchHeader>> {
        let slot_use = self.slot_use;
        let bytes = self.bytes.get(slot_use.offset(at), BATCH_HEADER_BYTES)?;
        let batch = BatchHeader::decode(bytes, slot_use.seed, JournalPosition(at));
        let fits = |batch: &BatchHeader| at + batch.batch_bytes() as u64 <= slot_use.limit();
        let misplaced = FormatError::new("journal batch", Fault::Misplaced);
        Ok(batch.and_then(|batch| {
            if fits(&batch) {
                Ok(batch)
            } else {
                Err(misplaced)
            }
        }))
    }

    /// The header of a record that ends at `end` at the latest.
    pub(super) fn record(&mut self, at: u64, end: u64) -> Result<Verified<RecordHeader>> {
        let slot_use = self.slot_use;
        let seal = slot_use.header.seal;
        let bytes = self.bytes.get(slot_use.offset(at), RECORD_HEADER_BYTES)?;
        let record = RecordHeader::decode(bytes, slot_use.seed, JournalPosition(at));
        let fits = |record: &RecordHeader| at + record.record_bytes(seal) as u64 <= end;
        let misplaced = FormatError::new("journal record", Fault::Misplaced);
        Ok(record.and_then(|record| {
            if fits(&record) {
                Ok(record)
            } else {
                Err(misplaced)
            }
        }))
    }

    /// Stored data of a record, not verified.
    pub(super) fn data(&mut self, at: u64, header: &RecordHeader) -> Result<&[u8]> {
        let offset = self.slot_use.offset(at) + RECORD_HEADER_BYTES as u64;
        let len = header.stored_bytes(self.slot_use.header.seal);
        self.bytes.get(offset, len)
    }

    /// The highest position that a batch at or after `at` knows to be durable; 0 without one.
    pub(super) fn durable_after(&mut self, at: u64) -> Result<u64> {
        let (mut durable, mut later) = (0, at.next_multiple_of(BLOCK));
        while later < self.slot_use.limit() {
            if let Ok(batch) = self.batch(later)? {
                durable = durable.max(batch.durable.0);
            }
            later += BLOCK;
        }
        Ok(durable)
    }

    /// Where the first batch from `at` on stands, or `end`.
    pub(super) fn next_batch(&mut self, mut at: u64, end: u64) -> Result<u64> {
        while at < end && self.batch(at)?.is_err() {
            at += BLOCK;
        }
        Ok(at.min(end))
    }

    /// Where the first record from `at` on stands, or `end`.
    pub(super) fn next_record(&mut self, mut at: u64, end: u64) -> Result<u64> {
        while at < end && self.record(at, end)?.is_err() {
            at += RECORD_ALIGN as u64;
        }
        Ok(at.min(end))
    }

    /// True for zeroes that a batch may have been padded with.
    pub(super) fn is_padding(&mut self, at: u64, end: u64) -> Result<bool> {
        let len = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX);
        if len >= BLOCK_BYTES {
            return Ok(false);
        }
        let bytes = self.bytes.get(self.slot_use.offset(at), len)?;
        Ok(bytes.iter().all(|b| *b == 0))
    }

    /// True when the device could not give a block between two positions.
    pub(super) fn is_unreadable(&self, at: u64, end: u64) -> bool {
        let offset = |at| self.slot_use.offset(at);
        self.bytes.is_unreadable(offset(at), offset(end))
    }
}
