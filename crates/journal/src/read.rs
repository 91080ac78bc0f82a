//! Reads one record: from memory while it waits there, otherwise from its slot.
//!
//! Volumes call this for writes that are neither applied nor in the page cache.
//! Invariant: a whole record from the device is verified before any of its bytes is returned.

use super::Journal;
use super::batch::Batch;
use super::slot_use::SlotUse;
use super::state::Buffered;
use chunk_store::{Result, StoreError, StoreErrorKind};
use format::journal::{RECORD_HEADER_BYTES, RecordHeader, RecordKind, TAG_BYTES};
use media::DiskFile;
use std::sync::Arc;
use units::JournalPosition;
use units::Part;

impl Journal {
    /// Reads data of a write record from byte `skip` on. Needs one device read if `into` reaches
    /// the record's end, otherwise at most two. Fails with `NotFound` if the position was trimmed,
    /// also during the read: the caller must look up again where the bytes are. Fails with
    /// `Corruption` if they are damaged.
    pub fn read(&self, position: JournalPosition, skip: usize, into: &mut [u8]) -> Result<()> {
        let state = self.state.lock();
        let trimmed = position.0 < state.trimmed;
        match state.buffered(position, |open| from_batch(open, position, skip, into)) {
            Buffered::Open(result) => result,
            Buffered::Waiting(batch) => {
                drop(state);
                from_batch(&batch, position, skip, into)
            }
            Buffered::No => {
                let slot_use = state.ring.find(position).filter(|_| !trimmed).cloned();
                drop(state);
                let slot_use = slot_use.ok_or_else(|| trimmed_error(position))?;
                let result = from_slot(&slot_use, position, skip, into);
                // The slot may have been trimmed and reused during the read.
                if self.state.lock().trimmed > position.0 {
                    return Err(trimmed_error(position));
                }
                result
            }
        }
    }
}

fn from_batch(batch: &Batch, at: JournalPosition, skip: usize, into: &mut [u8]) -> Result<()> {
    let (header, data) = batch.record(at).ok_or_else(|| no_record(at))?;
    copy(at, header, data, skip, into)
}

/// Reads from the first copy that has the record.
fn from_slot(
    slot_use: &Arc<SlotUse>,
    at: JournalPosition,
    skip: usize,
    into: &mut [u8],
) -> Result<()> {
    let mut failed = None;
    for file in slot_use.file()?.copies() {
        match from_copy(slot_use, &**file, at, skip, into) {
            Ok(()) => return Ok(()),
            Err(e) => drop(failed.get_or_insert(e)),
        }
    }
    failed.map_or_else(|| Err(no_record(at)), Err)
}

fn from_copy(
    slot_use: &SlotUse,
    file: &dyn DiskFile,
    at: JournalPosition,
    skip: usize,
    into: &mut [u8],
) -> Result<()> {
    let damaged = |found: &dyn std::fmt::Display| {
        let place = format!("{} position {at}", slot_use.name());
        StoreError::corruption("journal record", place, found)
    };
    let room = slot_use.limit().saturating_sub(at.0);
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    // Right if the caller wants the whole record, or its end. The header is not known yet.
    let tag = slot_use.key.as_ref().map_or(0, |_| TAG_BYTES);
    let guess = RECORD_HEADER_BYTES + skip.saturating_add(into.len()).saturating_add(tag);
    let mut bytes = vec![0; guess.min(room)];
    let offset = slot_use.offset(at.0);
    file.read_at(offset, &mut bytes)?;
    let header = RecordHeader::decode(&bytes, slot_use.seed, at).map_err(|e| damaged(&e))?;
    let end = RECORD_HEADER_BYTES + header.stored_bytes(slot_use.header.seal);
    let known = bytes.len();
    if end > room {
        return Err(damaged(&"it reaches past the end of its slot"));
    }
    bytes.resize(end, 0);
    if let Some(rest) = bytes.get_mut(known..).filter(|rest| !rest.is_empty()) {
        file.read_at(offset + known as u64, rest)?;
    }
    let stored = bytes.part_mut(RECORD_HEADER_BYTES..)?;
    let data = slot_use
        .open(at, &header, stored)
        .map_err(|e| damaged(&e))?;
    copy(at, &header, data, skip, into)
}

fn copy(
    at: JournalPosition,
    header: &RecordHeader,
    data: &[u8],
    skip: usize,
    into: &mut [u8],
) -> Result<()> {
    if header.kind != RecordKind::Write {
        return Err(no_record(at));
    }
    let wanted = data.get(skip..).and_then(|rest| rest.get(..into.len()));
    let wanted = wanted.ok_or_else(|| no_record(at))?;
    into.copy_from_slice(wanted);
    Ok(())
}

fn trimmed_error(at: JournalPosition) -> StoreError {
    StoreError::new(
        StoreErrorKind::NotFound,
        format!("journal position {at} was trimmed"),
    )
}

fn no_record(at: JournalPosition) -> StoreError {
    StoreError::new(
        StoreErrorKind::Invalid,
        format!("there are no such bytes at journal position {at}"),
    )
}
