//! Reads one record: from memory while it waits there, otherwise from its slot.
//!
//! Volumes call this for writes that are neither applied nor in the page cache; checkpoints too,
//! chunk by chunk. A record is verified as a whole, so the last ones of which a caller wanted a
//! part are kept: else a checkpoint would read a record of many chunks once for each.
//! Invariant: a whole record from the device is verified before any of its bytes is returned.

use super::Journal;
use super::batch::Batch;
use super::slot_use::SlotUse;
use super::state::Buffered;
use chunk_store::{Result, StoreError, StoreErrorKind};
use format::journal::{RECORD_HEADER_BYTES, RecordHeader, RecordKind, TAG_BYTES};
use media::DiskFile;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use units::JournalPosition;
use units::Part;

/// Data of the most frequent records: one page.
const GUESS_BYTES: usize = 4096;

/// Data of records that were read from their slots. Positions are never used again.
pub(super) struct Opened {
    bytes_max: usize,
    kept: Mutex<KeptRecords>,
}

#[derive(Default)]
struct KeptRecords {
    /// Oldest first.
    records: VecDeque<(JournalPosition, Arc<[u8]>)>,
    /// Sum of their sizes.
    bytes: usize,
}

impl Opened {
    pub fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            kept: Mutex::default(),
        }
    }

    fn get(&self, position: JournalPosition) -> Option<Arc<[u8]>> {
        let kept = self.kept.lock();
        let mut newest_first = kept.records.iter().rev();
        let found = newest_first.find(|(of, _)| *of == position);
        found.map(|(_, data)| Arc::clone(data))
    }

    fn keep(&self, position: JournalPosition, data: Arc<[u8]>) {
        let mut kept = self.kept.lock();
        kept.bytes += data.len();
        kept.records.push_back((position, data));
        while kept.bytes > self.bytes_max
            && let Some((_, oldest)) = kept.records.pop_front()
        {
            kept.bytes -= oldest.len();
        }
    }

    /// Returns the memory in use, bytes.
    pub fn bytes(&self) -> u64 {
        self.kept.lock().bytes as u64
    }
}

impl Journal {
    /// Reads data of a write record from byte `skip` on. Needs no device read if the record was
    /// read of late, one if `into` reaches the record's end, otherwise at most two. Fails with
    /// `NotFound` if the position was trimmed, also during the read: the caller must look up again
    /// where the bytes are. Fails with `Corruption` if they are damaged.
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
                let result = match self.opened.get(position) {
                    Some(data) => part(position, &data, skip, into),
                    None => self.read_slot(&slot_use, position, skip, into),
                };
                // The slot may have been trimmed and reused during the read.
                if self.state.lock().trimmed > position.0 {
                    return Err(trimmed_error(position));
                }
                result
            }
        }
    }

    /// Returns how many bytes of records [`read_ahead`](Self::read_ahead) keeps.
    pub fn ahead_bytes(&self) -> u64 {
        self.opened.bytes_max as u64
    }

    /// Reads the records at these positions in their order, as far as there is room to keep them,
    /// for calls of [`read`](Self::read) that follow soon in another order. Failures are left to
    /// those.
    pub fn read_ahead(&self, positions: &mut Vec<JournalPosition>) {
        positions.sort_unstable();
        positions.dedup();
        let mut room = self.opened.bytes_max;
        for position in positions.iter() {
            let slot_use = {
                let state = self.state.lock();
                let is_buffered = !matches!(state.buffered(*position, |_| ()), Buffered::No);
                let is_trimmed = position.0 < state.trimmed;
                let found = state.ring.find(*position).cloned();
                found.filter(|_| !is_buffered && !is_trimmed)
            };
            if let Some(slot_use) = slot_use
                && self.opened.get(*position).is_none()
                && let Ok(data) = record_of(&slot_use, *position, 0)
            {
                let Some(left) = room.checked_sub(data.len()) else {
                    return;
                };
                room = left;
                self.opened.keep(*position, data);
            }
        }
    }

    fn read_slot(
        &self,
        slot_use: &Arc<SlotUse>,
        at: JournalPosition,
        skip: usize,
        into: &mut [u8],
    ) -> Result<()> {
        let data = record_of(slot_use, at, skip.saturating_add(into.len()))?;
        part(at, &data, skip, into)?;
        if into.len() < data.len() {
            self.opened.keep(at, data);
        }
        Ok(())
    }
}

fn from_batch(batch: &Batch, at: JournalPosition, skip: usize, into: &mut [u8]) -> Result<()> {
    let (header, data) = batch.record(at).ok_or_else(|| no_record(at))?;
    copy(at, header, data, skip, into)
}

/// Reads the data of a write record from the first copy that has it. `wanted` bytes of it are
/// wanted at least; 0: unknown.
fn record_of(slot_use: &Arc<SlotUse>, at: JournalPosition, wanted: usize) -> Result<Arc<[u8]>> {
    let mut failed = None;
    for file in slot_use.file()?.copies() {
        match from_copy(slot_use, &**file, at, wanted) {
            Ok(data) => return Ok(data),
            Err(e) => drop(failed.get_or_insert(e)),
        }
    }
    failed.map_or_else(|| Err(no_record(at)), Err)
}

fn from_copy(
    slot_use: &SlotUse,
    file: &dyn DiskFile,
    at: JournalPosition,
    wanted: usize,
) -> Result<Arc<[u8]>> {
    let damaged = |found: &dyn std::fmt::Display| {
        let place = format!("{} position {at}", slot_use.name());
        StoreError::corruption("journal record", place, found)
    };
    let room = slot_use.limit().saturating_sub(at.0);
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    // Right if the caller wants the whole record, or its end. The header is not known yet. No read
    // for a client goes beyond what it wants: the file may end there.
    let tag = slot_use.key.as_ref().map_or(0, |_| TAG_BYTES);
    let wanted = if wanted == 0 { GUESS_BYTES } else { wanted };
    let guess = RECORD_HEADER_BYTES + wanted.saturating_add(tag);
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
    if header.kind != RecordKind::Write {
        return Err(no_record(at));
    }
    let stored = bytes.part_mut(RECORD_HEADER_BYTES..)?;
    let data = slot_use
        .open(at, &header, stored)
        .map_err(|e| damaged(&e))?;
    Ok(Arc::from(data))
}

fn copy(
    at: JournalPosition,
    header: &RecordHeader,
    data: &[u8],
    skip: usize,
    into: &mut [u8],
) -> Result<()> {
    match header.kind {
        RecordKind::Write => part(at, data, skip, into),
        _ => Err(no_record(at)),
    }
}

fn part(at: JournalPosition, data: &[u8], skip: usize, into: &mut [u8]) -> Result<()> {
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
