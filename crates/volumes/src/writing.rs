//! Writes to a live volume: through the journal, or, for whole chunks of large writes, directly
//! into containers.
//!
//! ```text
//! admit ─> large? ─ no ─> append to the journal ─> insert into the active overlay
//!             └─ yes ─> store whole chunks ─> append fingerprints ─> insert
//! ```
//!
//! Handles call this.
//! Invariant: every write is in the journal before it is in the active overlay, and both happen
//! behind the gate. A writer that waits for space holds neither the gate nor the state.

use super::engine::Engine;
use super::live::{LiveVolume, PAGE_BYTES};
use super::overlay::{DirectChunks, Piece, Source};
use journal::Record;
use page_cache::Use;
use std::sync::Arc;
use store::{Result, StoreError, StoreErrorKind};
use units::{Fingerprint, IoClass, JournalPosition};

/// A direct write is entered in parts of this size, a multiple of every chunk size.
const DIRECT_PART_BYTES: usize = 1 << 20;

/// Contents of a write.
enum Write<'a> {
    Data(&'a [u8]),
    Zero,
    Chunks(Arc<[Fingerprint]>),
}

impl LiveVolume {
    /// Writes `data` at `offset`, for a request of that class; later reads see it. Waits for space
    /// in the journal.
    pub fn write(&self, engine: &Engine, class: IoClass, offset: u64, data: &[u8]) -> Result<()> {
        let len = data.len() as u64;
        engine.back_pressure.admission.admit(len)?;
        let direct_bytes_min = engine.direct.bytes_min();
        if !engine.direct.is_streaming(len) || len < direct_bytes_min {
            return self.write_journalled(engine, class, offset, data);
        }
        // Whole chunks bypass the journal; the bytes around them do not.
        let chunk_bytes = self.chunk_bytes();
        let first = offset.next_multiple_of(chunk_bytes);
        let end = (offset + len) & !(chunk_bytes - 1);
        if end < first + direct_bytes_min {
            return self.write_journalled(engine, class, offset, data);
        }
        let (head, rest) = data.split_at((first - offset) as usize);
        let (whole, tail) = rest.split_at((end - first) as usize);
        self.write_journalled(engine, class, offset, head)?;
        let mut at = first;
        for part in whole.chunks(DIRECT_PART_BYTES) {
            self.write_direct(engine, class, at, part)?;
            at += part.len() as u64;
        }
        self.write_journalled(engine, class, end, tail)
    }

    fn write_direct(
        &self,
        engine: &Engine,
        class: IoClass,
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        if engine.back_pressure.waits.is_held_back() {
            return self.write_journalled(engine, class, offset, data);
        }
        // Held from the lookup of duplicates until the overlay names the chunks: see
        // `Volumes::visit_unapplied`.
        let choosing = engine.direct.choosing();
        self.expect_takes(engine, offset, data.len() as u64)?;
        let stored = engine.direct.store(self.chunk_bytes() as usize, data)?;
        let Some(fingerprints) = stored else {
            drop(choosing);
            return self.write_journalled(engine, class, offset, data);
        };
        let chunks = data.chunks_exact(self.chunk_bytes() as usize);
        for (fingerprint, bytes) in fingerprints.iter().zip(chunks) {
            if !fingerprint.is_hole() {
                engine
                    .backing
                    .cache
                    .insert(fingerprint, bytes, None, Use::Scan.of(class));
            }
        }
        let write = Write::Chunks(fingerprints.into());
        self.append_waiting(engine, class, offset, &write, data.len() as u64)?;
        engine.back_pressure.written()
    }

    fn write_journalled(
        &self,
        engine: &Engine,
        class: IoClass,
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        let mut at = offset;
        let mut rest = data;
        while !rest.is_empty() {
            // Records end at page boundaries, so that each page belongs to one record.
            let room = Record::DATA_BYTES_MAX as u64 - at % Record::DATA_BYTES_MAX as u64;
            let take = room.min(rest.len() as u64) as usize;
            let (now, later) = rest.split_at(take);
            self.append_waiting(engine, class, at, &Write::Data(now), take as u64)?;
            rest = later;
            at += take as u64;
        }
        engine.back_pressure.written()
    }

    /// Writes if that needs no waiting. Returns false, without a write, if it does.
    pub fn write_now(
        &self,
        engine: &Engine,
        class: IoClass,
        offset: u64,
        data: &[u8],
    ) -> Result<bool> {
        let fits_one_record = data.len() <= Record::DATA_BYTES_MAX;
        if !fits_one_record
            || engine.levels.is_pressed()
            || engine.backing.journal.is_write_out_due()
        {
            return Ok(false);
        }
        if !engine
            .back_pressure
            .admission
            .is_admitted(data.len() as u64)
        {
            return Ok(false);
        }
        engine.direct.is_streaming(data.len() as u64);
        self.append(engine, class, offset, &Write::Data(data), data.len() as u64)
    }

    /// Makes a range read as zeroes.
    pub fn zero(&self, engine: &Engine, offset: u64, len: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        self.append_waiting(engine, IoClass(0), offset, &Write::Zero, len)?;
        engine.back_pressure.written()
    }

    /// Appends one record; waits until the journal has space.
    fn append_waiting(
        &self,
        engine: &Engine,
        class: IoClass,
        offset: u64,
        write: &Write<'_>,
        len: u64,
    ) -> Result<()> {
        // A writer that looked up duplicates must not wait for space: garbage collection waits for
        // that writer.
        let may_wait = !matches!(write, Write::Chunks(_));
        loop {
            engine.back_pressure.wait_for_pieces(may_wait)?;
            let rounds = engine.checkpointer.rounds();
            if self.append(engine, class, offset, write, len)? {
                return Ok(());
            }
            engine.back_pressure.make_room(rounds, may_wait)?;
        }
    }

    /// Appends one record and inserts its piece, behind the gate. Returns false if the journal is
    /// full.
    fn append(
        &self,
        engine: &Engine,
        class: IoClass,
        offset: u64,
        write: &Write<'_>,
        len: u64,
    ) -> Result<bool> {
        let _gate = self.enter();
        self.expect_takes(engine, offset, len)?;
        let volume = self.id;
        let (record, source) = match write {
            Write::Data(data) => (
                Record::Write {
                    volume,
                    offset_bytes: offset,
                    data,
                },
                Source::Record {
                    skip: 0,
                    class: Some(class),
                },
            ),
            Write::Zero => (
                Record::Zero {
                    volume,
                    offset_bytes: offset,
                    len_bytes: len,
                },
                Source::Zero,
            ),
            Write::Chunks(fingerprints) => (
                Record::Chunks {
                    volume,
                    chunk_first: offset >> self.log2,
                    fingerprints,
                },
                Source::Chunks(DirectChunks {
                    fingerprints: Arc::clone(fingerprints),
                    log2: self.log2,
                    skip: 0,
                }),
            ),
        };
        let position = match engine.backing.journal.append(&record) {
            Err(e) if e.kind == StoreErrorKind::JournalFull => return Ok(false),
            position => position?,
        };
        // Before readers can find the piece.
        if let Write::Data(data) = write {
            self.keep_pages(engine, (class, position), offset, data);
        }
        let mut state = self.state_mut();
        state.active.insert(Piece {
            offset,
            len,
            position,
            source,
        });
        state.fresh = true;
        Ok(true)
    }

    fn expect_takes(&self, engine: &Engine, offset: u64, len: u64) -> Result<()> {
        let state = self.state();
        state.expect_open()?;
        if offset.saturating_add(len) > state.size {
            let why = "the volume was shrunk";
            return Err(StoreError::new(StoreErrorKind::Invalid, why));
        }
        let keeps = state.kept.is_some();
        drop(state);
        match keeps {
            true => self.expect_writable(engine),
            false => Ok(()),
        }
    }

    fn keep_pages(
        &self,
        engine: &Engine,
        (class, position): (IoClass, JournalPosition),
        offset: u64,
        data: &[u8],
    ) {
        let lead = (offset.next_multiple_of(PAGE_BYTES) - offset) as usize;
        // A write within one page has no whole page.
        let Some(whole) = data.get(lead..) else {
            return;
        };
        let first = offset.div_ceil(PAGE_BYTES);
        for (page, bytes) in (first..).zip(whole.chunks_exact(PAGE_BYTES as usize)) {
            if let Ok(bytes) = bytes.try_into() {
                engine
                    .backing
                    .cache
                    .put_dirty(self.object, page, position.0, bytes, class);
            }
        }
    }

    /// Refuses a write if the volume has too many writes that no checkpoint can take.
    fn expect_writable(&self, engine: &Engine) -> Result<()> {
        let kept = self.state().kept.clone();
        let Some(kept) = kept.filter(|kept| engine.levels.is_too_much(kept)) else {
            return Ok(());
        };
        let found = format!(
            "the volume accepts no more writes: no checkpoint can apply {} bytes of the journal: {}; \
                     run quintet repair, or roll the volume back to a snapshot",
            kept.bytes, kept.why
        );
        Err(StoreError::corruption(
            "volume",
            engine.registry.name_of(&self.id),
            found,
        ))
    }
}

#[cfg(test)]
mod tests;
