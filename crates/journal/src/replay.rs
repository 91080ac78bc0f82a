//! Walks through the records of one use of a slot.
//!
//! `open` calls this.
//! Invariant: the first batch or record that does not verify ends the journal, unless it is known
//! to have been durable. Then it is damage: it is reported, and the walk continues after it. The
//! header of the next slot, later batch headers of this use, and the reach record name what was
//! durable.

use super::Record;
use super::damage::JournalDamage;
use super::slot_bytes::SlotBytes;
use super::slot_reader::SlotReader;
use super::slot_use::{SlotUse, Unsound};
use chunk_store::Result;
use format::bytes::{Fault, FormatError};
use format::journal::{
    BATCH_HEADER_BYTES, BLOCK_BYTES, RECORD_ALIGN, RECORD_HEADER_BYTES, RecordHeader, RecordKind,
};
use units::{Fingerprint, JournalPosition};

/// Receives replayed records.
pub(super) type Take<'a> = dyn FnMut(JournalPosition, Record<'_>) -> Result<()> + 'a;

/// Where a use ended, as far as other headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// At this position: a later use says so.
    Known(u64),
    /// At the first record that does not verify, and below this position.
    Open(u64),
}

/// Where a walk ended.
pub(super) struct Ended {
    /// Position after the last record.
    pub(super) at: u64,
    /// Everything of this use below is known to be durable; its first position if nothing is.
    pub(super) durable: u64,
    /// A copy lacked something that another one had.
    pub(super) lacks: bool,
}

/// One walk.
pub(super) struct Walk<'a, 'b> {
    slot_use: &'a SlotUse,
    slot: SlotReader<'a>,
    /// Records below are skipped.
    from: u64,
    take: &'a mut Take<'b>,
    damage: &'a mut Vec<JournalDamage>,
    /// Everything below was durable.
    durable: u64,
    /// Later batches were searched for a higher `durable`.
    asked: bool,
    data: Vec<u8>,
    fingerprints: Vec<Fingerprint>,
}

/// Result of reading a record.
enum Found {
    Sound(RecordHeader),
    /// The header is not valid.
    NoRecord(FormatError),
    /// The header is valid, the data is not.
    NoData(RecordHeader, Unsound),
}

impl<'a, 'b> Walk<'a, 'b> {
    /// Creates a walk from the use's first position on. Everything below `durable` is known to have
    /// been durable.
    pub(super) fn new(
        slot_use: &'a SlotUse,
        copies: Vec<SlotBytes>,
        from: JournalPosition,
        take: &'a mut Take<'b>,
        damage: &'a mut Vec<JournalDamage>,
        durable: JournalPosition,
    ) -> Self {
        Self {
            slot_use,
            slot: SlotReader::new(slot_use, copies),
            from: from.0,
            take,
            damage,
            durable: slot_use.first().max(durable.0.min(slot_use.limit())),
            asked: false,
            data: Vec::new(),
            fingerprints: Vec::new(),
        }
    }

    /// Walks to the end of the use.
    pub(super) fn run(mut self, end: End) -> Result<Ended> {
        let room = self.slot_use.limit();
        let limit = match end {
            End::Open(below) => room.min(below),
            End::Known(end) => {
                (self.durable, self.asked) = (end.min(room), true);
                if end > room {
                    self.lost(room, end, None, &"missing in their slot");
                }
                end.min(room)
            }
        };
        let mut at = self.slot_use.first();
        while at < limit {
            at = match self.slot.batch(at)? {
                Ok(batch) => {
                    self.durable = self.durable.max(batch.durable.0);
                    let next = at + batch.batch_bytes() as u64;
                    let first = at + BATCH_HEADER_BYTES as u64;
                    let last = limit.min(at + u64::from(batch.used_bytes));
                    if next > self.from
                        && let Some(torn) = self.records(first, last, false)?
                    {
                        return Ok(self.ended(torn));
                    }
                    next
                }
                Err(found) => {
                    if !self.was_durable(at)? {
                        self.ends_unreadable(at, at + BLOCK_BYTES as u64);
                        return Ok(self.ended(at));
                    }
                    self.salvage(at, &found)?
                }
            };
        }
        Ok(self.ended(at.min(limit)))
    }

    fn ended(&self, at: u64) -> Ended {
        Ended {
            at,
            durable: self.durable.min(at),
            lacks: self.slot.lacks() > 0,
        }
    }

    /// Replays what is left of a batch whose header is damaged, and returns where the next batch
    /// starts. The whole batch is reported as damaged: zeroes at its end may be padding or lost
    /// records.
    fn salvage(&mut self, at: u64, found: &FormatError) -> Result<u64> {
        let next = self
            .slot
            .next_batch(at + BLOCK_BYTES as u64, self.durable)?;
        self.lost(at, next, None, found);
        self.records(at + BATCH_HEADER_BYTES as u64, next, true)?;
        Ok(next)
    }

    /// Replays the records of a batch, followed by padding if `padded`. Returns the end of the
    /// journal if it ends here.
    fn records(&mut self, mut at: u64, end: u64, padded: bool) -> Result<Option<u64>> {
        while at < end {
            let seal = self.slot_use.header.seal;
            at = match self.record(at, end)? {
                Found::Sound(header) => at + header.record_bytes(seal) as u64,
                // A writer without the key made this: no crash can.
                Found::NoData(header, found @ Unsound::Seal) => {
                    let next = at + header.record_bytes(seal) as u64;
                    self.lost(at, next, Some(header), &found);
                    next
                }
                Found::NoData(header, found) if self.was_durable(at)? => {
                    let next = at + header.record_bytes(seal) as u64;
                    self.lost(at, next, Some(header), &found);
                    next
                }
                Found::NoRecord(_) if padded && self.slot.is_padding(at, end)? => return Ok(None),
                Found::NoRecord(found) if self.was_durable(at)? => {
                    let next = self.slot.next_record(at + RECORD_ALIGN as u64, end)?;
                    self.lost(at, next, None, &found);
                    next
                }
                Found::NoData(header, _) => {
                    self.ends_unreadable(at, at + header.record_bytes(seal) as u64);
                    return Ok(Some(at));
                }
                Found::NoRecord(_) => {
                    self.ends_unreadable(at, at + RECORD_HEADER_BYTES as u64);
                    return Ok(Some(at));
                }
            };
        }
        Ok(None)
    }

    /// Reads a record from the first copy that has it, and replays it.
    fn record(&mut self, at: u64, end: u64) -> Result<Found> {
        let mut found = None;
        for copy in 0..self.slot.copies() {
            match self.record_of(copy, at, end)? {
                Found::Sound(header) => {
                    if copy > 0 {
                        self.slot.lacked();
                    }
                    if at >= self.from {
                        self.replay(JournalPosition(at), &header)?;
                    }
                    return Ok(Found::Sound(header));
                }
                // The first copy with a header says which record is lost.
                bad @ Found::NoData(..) if !matches!(found, Some(Found::NoData(..))) => {
                    found = Some(bad);
                }
                bad => drop(found.get_or_insert(bad)),
            }
        }
        let nothing = || FormatError::new("journal record", Fault::Truncated);
        Ok(found.unwrap_or_else(|| Found::NoRecord(nothing())))
    }

    /// Reads and verifies a record of one copy. `data` has its data afterwards, unless it is
    /// skipped.
    fn record_of(&mut self, copy: usize, at: u64, end: u64) -> Result<Found> {
        let header = match self.slot.record(copy, at, end)? {
            Ok(header) => header,
            Err(e) => return Ok(Found::NoRecord(e)),
        };
        if at < self.from {
            return Ok(Found::Sound(header));
        }
        let stored = self.slot.data(copy, at, &header)?;
        self.data.clear();
        self.data.extend_from_slice(stored);
        let opened = self
            .slot_use
            .open(JournalPosition(at), &header, &mut self.data);
        match opened.map(<[u8]>::len) {
            Ok(len) => {
                self.data.truncate(len);
                Ok(Found::Sound(header))
            }
            Err(found) => Ok(Found::NoData(header, found)),
        }
    }

    /// Replays the record whose data are in `data`.
    fn replay(&mut self, position: JournalPosition, header: &RecordHeader) -> Result<()> {
        let (volume, start) = (header.volume, header.start);
        let record = match header.kind {
            RecordKind::Write => Record::Write {
                volume,
                offset_bytes: start,
                data: &self.data,
            },
            RecordKind::Zero => Record::Zero {
                volume,
                offset_bytes: start,
                len_bytes: header.len,
            },
            RecordKind::Chunks => {
                self.fingerprints.clear();
                let (prints, _) = self.data.as_chunks::<32>();
                self.fingerprints
                    .extend(prints.iter().map(|print| Fingerprint(*print)));
                Record::Chunks {
                    volume,
                    chunk_first: start,
                    fingerprints: &self.fingerprints,
                }
            }
        };
        (self.take)(position, record)
    }

    /// Returns true if the bytes at `at` were durable. The first doubtful position searches all
    /// later batches.
    fn was_durable(&mut self, at: u64) -> Result<bool> {
        if at >= self.durable && !self.asked {
            self.asked = true;
            self.durable = self.durable.max(self.slot.durable_after(at)?);
        }
        Ok(at < self.durable)
    }

    /// Reports damage, unless the lost positions are not needed.
    fn lost(
        &mut self,
        at: u64,
        next: u64,
        record: Option<RecordHeader>,
        found: &dyn std::fmt::Display,
    ) {
        if next <= self.from {
            return;
        }
        let found = match self.slot.is_unreadable(at, next) {
            true => "cannot be read".to_owned(),
            false => found.to_string(),
        };
        self.damage.push(JournalDamage {
            slot: Some(self.slot_use.header.slot),
            at: JournalPosition(at.max(self.from)),
            end: JournalPosition(next),
            record,
            found,
        });
    }

    /// Reports unreadable blocks at the end of the journal: a crash does not cause these.
    fn ends_unreadable(&mut self, at: u64, next: u64) {
        if self.slot.is_unreadable(at, next) {
            self.lost(at, next, None, &"cannot be read");
        }
    }
}
