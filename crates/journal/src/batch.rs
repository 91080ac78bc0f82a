//! A batch: appended records in memory until they are written.
//!
//! `state` appends to it and `writer` writes it.
//! Invariant: bytes stand where they will stand in the slot, unencrypted, with space for the seal.
//! Appended bytes never change: readers copy from a batch while it is written. The writer adds the
//! headers, which are stored separately until then.

use super::Record;
use super::slot_use::SlotUse;
use format::journal::{BATCH_HEADER_BYTES, BLOCK_BYTES, RECORD_HEADER_BYTES, RecordHeader};
use std::sync::Arc;
use units::JournalPosition;

/// Records of one slot that are written together.
pub(super) struct Batch {
    /// Use of the slot that receives them.
    pub(super) slot_use: Arc<SlotUse>,
    /// Position of the batch.
    pub(super) at: u64,
    /// Header (zeroes) and records, without padding.
    pub(super) bytes: Vec<u8>,
    /// Offset of each record in `bytes`, ascending, and its header without checksum.
    pub(super) records: Vec<(usize, RecordHeader)>,
}

impl Batch {
    /// Creates an empty batch; `capacity` is its expected size.
    pub(super) fn new(
        slot_use: Arc<SlotUse>,
        at: u64,
        mut bytes: Vec<u8>,
        capacity: usize,
    ) -> Self {
        bytes.clear();
        bytes.reserve(capacity);
        bytes.resize(BATCH_HEADER_BYTES, 0);
        Self {
            slot_use,
            at,
            bytes,
            records: Vec::new(),
        }
    }

    /// Returns the position after the last record.
    pub(super) fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }

    /// Returns the position after the padding.
    pub(super) fn padded_end(&self) -> u64 {
        self.at + self.bytes.len().next_multiple_of(BLOCK_BYTES) as u64
    }

    /// Appends a record. The caller has checked that it fits.
    pub(super) fn push(&mut self, header: RecordHeader, record: &Record<'_>) -> JournalPosition {
        let start = self.bytes.len();
        let record_bytes = header.record_bytes(self.slot_use.header.seal);
        self.bytes.resize(start + RECORD_HEADER_BYTES, 0);
        match record {
            Record::Write { data, .. } => self.bytes.extend_from_slice(data),
            Record::Zero { .. } => {}
            Record::Chunks { fingerprints, .. } => {
                for fingerprint in *fingerprints {
                    self.bytes.extend_from_slice(&fingerprint.0);
                }
            }
        }
        self.bytes.resize(start + record_bytes, 0);
        self.records.push((start, header));
        JournalPosition(self.at + start as u64)
    }

    /// Returns header and unencrypted data of the record at this position.
    pub(super) fn record(&self, at: JournalPosition) -> Option<(&RecordHeader, &[u8])> {
        let start = usize::try_from(at.0.checked_sub(self.at)?).ok()?;
        let found = self
            .records
            .binary_search_by_key(&start, |(start, _)| *start);
        let (_, header) = self.records.get(found.ok()?)?;
        let data = start + RECORD_HEADER_BYTES;
        let data = self.bytes.get(data..data + header.data_bytes as usize)?;
        Some((header, data))
    }

    /// Returns true if the position lies in the batch.
    pub(super) fn covers(&self, at: JournalPosition) -> bool {
        (self.at..self.end()).contains(&at.0)
    }
}
