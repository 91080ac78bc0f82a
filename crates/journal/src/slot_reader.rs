//! Reads headers of batches and records by position, and searches for the next valid one.
//!
//! `replay` calls this.
//! Invariant: a returned header verified at its place and ends within its slot. Every search goes
//! forward and ends at a given position.

use super::slot_bytes::SlotBytes;
use super::slot_use::SlotUse;
use chunk_store::Result;
use format::bytes::{Fault, FormatError};
use format::journal::{
    BATCH_HEADER_BYTES, BLOCK_BYTES, BatchHeader, RECORD_ALIGN, RECORD_HEADER_BYTES, RecordHeader,
};
use units::JournalPosition;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// A header, or why it is not valid.
type Verified<T> = std::result::Result<T, FormatError>;

/// Reader of one slot use. See the module's head.
pub(super) struct SlotReader<'a> {
    slot_use: &'a SlotUse,
    /// One of each copy.
    copies: Vec<SlotBytes>,
    /// How often a copy lacked what a later one had.
    lacks: u64,
}

impl<'a> SlotReader<'a> {
    /// Creates a reader of one use.
    pub(super) fn new(slot_use: &'a SlotUse, copies: Vec<SlotBytes>) -> Self {
        Self {
            slot_use,
            copies,
            lacks: 0,
        }
    }

    /// Returns the number of copies.
    pub(super) fn copies(&self) -> usize {
        self.copies.len()
    }

    /// Returns how often a copy lacked what a later one had.
    pub(super) fn lacks(&self) -> u64 {
        self.lacks
    }

    /// Counts that a copy lacked what a later one has.
    pub(super) fn lacked(&mut self) {
        self.lacks += 1;
    }

    /// Returns the batch header at a position, from the first copy that has it.
    pub(super) fn batch(&mut self, at: u64) -> Result<Verified<BatchHeader>> {
        let mut first = None;
        for copy in 0..self.copies() {
            match self.batch_of(copy, at)? {
                Ok(batch) => {
                    self.lacks += u64::from(copy > 0);
                    return Ok(Ok(batch));
                }
                Err(e) => drop(first.get_or_insert(e)),
            }
        }
        Ok(Err(first.unwrap_or_else(nothing)))
    }

    fn bytes(&mut self, copy: usize, offset: u64, len: usize) -> Result<&[u8]> {
        match self.copies.get_mut(copy) {
            Some(bytes) => bytes.get(offset, len),
            None => Ok(&[]),
        }
    }

    /// Returns the batch header at a position of one copy.
    pub(super) fn batch_of(&mut self, copy: usize, at: u64) -> Result<Verified<BatchHeader>> {
        let slot_use = self.slot_use;
        let bytes = self.bytes(copy, slot_use.offset(at), BATCH_HEADER_BYTES)?;
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

    /// Returns the header of a record of one copy that ends at or before `end`.
    pub(super) fn record(
        &mut self,
        copy: usize,
        at: u64,
        end: u64,
    ) -> Result<Verified<RecordHeader>> {
        let slot_use = self.slot_use;
        let seal = slot_use.header.seal;
        let bytes = self.bytes(copy, slot_use.offset(at), RECORD_HEADER_BYTES)?;
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

    /// Returns a record's stored data in one copy, not verified.
    pub(super) fn data(&mut self, copy: usize, at: u64, header: &RecordHeader) -> Result<&[u8]> {
        let offset = self.slot_use.offset(at) + RECORD_HEADER_BYTES as u64;
        let len = header.stored_bytes(self.slot_use.header.seal);
        self.bytes(copy, offset, len)
    }

    /// Returns the copy that has most of the batch at a position, and where the next batch begins.
    pub(super) fn best_copy(&mut self, at: u64) -> Result<(usize, u64)> {
        let (mut best, mut reach, mut next) = (0, 0, at + BLOCK);
        for copy in 0..self.copies() {
            let Ok(batch) = self.batch_of(copy, at)? else {
                continue;
            };
            let end = at + u64::from(batch.used_bytes);
            let sound = self.sound_to(copy, at + BATCH_HEADER_BYTES as u64, end)?;
            if sound > reach {
                (best, reach, next) = (copy, sound, at + batch.batch_bytes() as u64);
            }
        }
        Ok((best, next))
    }

    /// Returns where the records of a batch end to verify in one copy.
    fn sound_to(&mut self, copy: usize, mut at: u64, end: u64) -> Result<u64> {
        while at < end {
            let Ok(header) = self.record(copy, at, end)? else {
                break;
            };
            let stored = self.data(copy, at, &header)?;
            if header.verify_data(stored).is_err() {
                break;
            }
            at += header.record_bytes(self.slot_use.header.seal) as u64;
        }
        Ok(at)
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
        while at < end {
            for copy in 0..self.copies() {
                if self.record(copy, at, end)?.is_ok() {
                    return Ok(at);
                }
            }
            at += RECORD_ALIGN as u64;
        }
        Ok(at.min(end))
    }

    /// Returns true if these bytes of a copy are zeroes that may be a batch's padding.
    pub(super) fn is_padding(&mut self, at: u64, end: u64) -> Result<bool> {
        let len = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX);
        if len >= BLOCK_BYTES {
            return Ok(false);
        }
        let offset = self.slot_use.offset(at);
        for copy in 0..self.copies() {
            if self.bytes(copy, offset, len)?.iter().all(|b| *b == 0) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if a block between two positions could be read in no copy.
    pub(super) fn is_unreadable(&self, at: u64, end: u64) -> bool {
        let (from, to) = (self.slot_use.offset(at), self.slot_use.offset(end));
        self.copies.iter().all(|copy| copy.is_unreadable(from, to))
    }
}

fn nothing() -> FormatError {
    FormatError::new("journal batch", Fault::Truncated)
}
