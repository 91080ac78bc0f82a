//! Reads headers of batches and records by position, and searches for the next valid one.
//!
//! `replay` calls this.
//! Invariant: a returned header verified at its place and ends within its slot. Every search goes
//! forward and ends at a given position.

use super::slot_bytes::SlotBytes;
use super::slot_use::SlotUse;
use format::bytes::{Fault, FormatError};
use format::journal::{
    BATCH_HEADER_BYTES, BLOCK_BYTES, BatchHeader, RECORD_ALIGN, RECORD_HEADER_BYTES, RecordHeader,
};
use chunk_store::Result;
use units::JournalPosition;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// A header, or why it is not valid.
type Verified<T> = std::result::Result<T, FormatError>;

/// Reader of one slot use. See the module's head.
pub(super) struct SlotReader<'a> {
    slot_use: &'a SlotUse,
    bytes: SlotBytes,
}

impl<'a> SlotReader<'a> {
    /// Creates a reader of one use.
    pub(super) fn new(slot_use: &'a SlotUse, bytes: SlotBytes) -> Self {
        Self { slot_use, bytes }
    }

    /// Returns the batch header at a position.
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

    /// Returns the header of a record that ends at or before `end`.
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

    /// Returns a record's stored data, not verified.
    pub(super) fn data(&mut self, at: u64, header: &RecordHeader) -> Result<&[u8]> {
        let offset = self.slot_use.offset(at) + RECORD_HEADER_BYTES as u64;
        let len = header.stored_bytes(self.slot_use.header.seal);
        self.bytes.get(offset, len)
    }

    /// Returns the highest durable position that any batch at or after `at` names; 0 if there is
    /// none.
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

    /// Returns the position of the first valid batch from `at` on, or `end`.
    pub(super) fn next_batch(&mut self, mut at: u64, end: u64) -> Result<u64> {
        while at < end && self.batch(at)?.is_err() {
            at += BLOCK;
        }
        Ok(at.min(end))
    }

    /// Returns the position of the first valid record from `at` on, or `end`.
    pub(super) fn next_record(&mut self, mut at: u64, end: u64) -> Result<u64> {
        while at < end && self.record(at, end)?.is_err() {
            at += RECORD_ALIGN as u64;
        }
        Ok(at.min(end))
    }

    /// Returns true if these bytes are zeroes that may be a batch's padding.
    pub(super) fn is_padding(&mut self, at: u64, end: u64) -> Result<bool> {
        let len = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX);
        if len >= BLOCK_BYTES {
            return Ok(false);
        }
        let bytes = self.bytes.get(self.slot_use.offset(at), len)?;
        Ok(bytes.iter().all(|b| *b == 0))
    }

    /// Returns true if a block between two positions could not be read.
    pub(super) fn is_unreadable(&self, at: u64, end: u64) -> bool {
        let offset = |at| self.slot_use.offset(at);
        self.bytes.is_unreadable(offset(at), offset(end))
    }
}
