//! One open volume: its layers, and reads and writes through them.
//!
//! Invariant: what a reader finds in the layers of one moment is what was acknowledged at that
//! moment or is being written. Every write is in the journal before it is in the active overlay,
//! and both happen behind the gate, so that a freeze at journal position P finds exactly the
//! writes below P. Called by handles and checkpoints.

mod read;

use super::engine::Engine;
use super::front::Front;
use super::kept::Kept;
use super::overlay::{DirectChunks, Overlay, Piece, Source};
use super::tally::CacheMeter;
use super::tracing::Recorder;
use crate::error::{Result, StoreError, StoreErrorKind};
use crate::journal::Record;
use crate::recipe::fixed_chunk;
use format::recipe::ObjectRoot;
use page_cache::{Place, Use};
use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::sync::Arc;
use units::{Fingerprint, JournalPosition, VolumeId};

/// Unit of the page cache's unwritten side, bytes.
pub(super) const PAGE_BYTES: u64 = 4096;

/// Layers of a volume, newest first: active, frozen, root.
pub(super) struct State {
    /// Bytes that clients may address.
    pub size: u64,
    pub active: Overlay,
    /// While a checkpoint works on it.
    pub frozen: Option<Arc<Overlay>>,
    pub root: ObjectRoot,
    /// Something is active that no round has tried to take.
    pub fresh: bool,
    /// What the last round that tried could not take.
    pub kept: Option<Arc<Kept>>,
    /// Whether places of `root` may be entered into the page cache: not while it is exchanged.
    pub aliasing: bool,
    /// Deleted: every request fails.
    pub closed: bool,
}

/// An open volume.
pub(crate) struct LiveVolume {
    pub id: VolumeId,
    /// Its number in the page cache, never used again.
    pub object: u64,
    pub log2: u8,
    state: RwLock<State>,
    /// Writers hold it for reading while they append and enter; a freeze for writing.
    gate: RwLock<()>,
    /// Held by administrative changes: one at a time for each volume.
    administration: Mutex<()>,
    front: Front,
    /// What is read of it.
    recorder: Arc<Recorder>,
    /// Where requests found what they asked for.
    pub meter: CacheMeter,
}

impl LiveVolume {
    pub fn new(
        id: VolumeId,
        object: u64,
        log2: u8,
        root: ObjectRoot,
        active: Overlay,
        recorder: Arc<Recorder>,
    ) -> Self {
        Self {
            id,
            object,
            log2,
            state: RwLock::new(State {
                size: root.len,
                fresh: !active.is_empty(),
                kept: None,
                active,
                frozen: None,
                root,
                aliasing: true,
                closed: false,
            }),
            gate: RwLock::new(()),
            administration: Mutex::new(()),
            front: Front::new(root.len),
            recorder,
            meter: CacheMeter::default(),
        }
    }

    pub fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read()
    }

    pub fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write()
    }

    /// Keeps writers out; those inside have appended and entered.
    pub fn shut(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write()
    }

    /// One administrative change at a time.
    pub fn administer(&self) -> MutexGuard<'_, ()> {
        self.administration.lock()
    }

    /// Bytes of a chunk.
    pub fn chunk_bytes(&self) -> u64 {
        1 << self.log2
    }

    /// Stores `data` at `offset`; later reads see it. Waits for room in the journal.
    pub fn write(&self, engine: &Engine, offset: u64, data: &[u8]) -> Result<()> {
        let len = data.len() as u64;
        engine.admit(len)?;
        let direct_bytes_min = engine.direct.bytes_min();
        if !engine.direct.is_streaming(len) || len < direct_bytes_min {
            return self.write_journalled(engine, offset, data);
        }
        // Whole chunks pass the journal by; what is around them does not.
        let chunk_bytes = self.chunk_bytes();
        let first = offset.next_multiple_of(chunk_bytes);
        let end = (offset + len) & !(chunk_bytes - 1);
        if end < first + direct_bytes_min {
            return self.write_journalled(engine, offset, data);
        }
        let (head, rest) = data.split_at((first - offset) as usize);
        let (whole, tail) = rest.split_at((end - first) as usize);
        self.write_journalled(engine, offset, head)?;
        let mut at = first;
        for part in whole.chunks(DIRECT_PART_BYTES) {
            self.write_direct(engine, at, part)?;
            at += part.len() as u64;
        }
        self.write_journalled(engine, end, tail)
    }

    fn write_direct(&self, engine: &Engine, offset: u64, data: &[u8]) -> Result<()> {
        if engine.is_held_back() {
            return self.write_journalled(engine, offset, data);
        }
        // From the choice of a place until the overlay names it: see `Engine::visit_unfolded`.
        let choosing = engine.direct.choosing();
        self.expect_takes(engine, offset, data.len() as u64)?;
        let stored = engine.direct.store(self.chunk_bytes() as usize, data)?;
        let Some(fingerprints) = stored else {
            drop(choosing);
            return self.write_journalled(engine, offset, data);
        };
        let chunks = data.chunks_exact(self.chunk_bytes() as usize);
        for (fingerprint, bytes) in fingerprints.iter().zip(chunks) {
            if !fingerprint.is_hole() {
                engine
                    .backing
                    .cache
                    .insert(fingerprint, bytes, None, Use::Scan);
            }
        }
        let write = Write::Chunks(fingerprints.into());
        self.append_waiting(engine, offset, &write, data.len() as u64)?;
        engine.written()
    }

    fn write_journalled(&self, engine: &Engine, offset: u64, data: &[u8]) -> Result<()> {
        let mut at = offset;
        let mut rest = data;
        while !rest.is_empty() {
            // Records end where pages end, so that a page is of one record.
            let room = Record::DATA_BYTES_MAX as u64 - at % Record::DATA_BYTES_MAX as u64;
            let take = room.min(rest.len() as u64) as usize;
            let (now, later) = rest.split_at(take);
            self.append_waiting(engine, at, &Write::Data(now), take as u64)?;
            rest = later;
            at += take as u64;
        }
        engine.written()
    }

    /// The same if nothing has to be waited for; false when something has, and nothing was written.
    pub fn write_now(&self, engine: &Engine, offset: u64, data: &[u8]) -> Result<bool> {
        let fits_one_record = data.len() <= Record::DATA_BYTES_MAX;
        if !fits_one_record || engine.is_pressed() || engine.backing.journal.is_write_out_due() {
            return Ok(false);
        }
        if !engine.is_admitted(data.len() as u64) {
            return Ok(false);
        }
        engine.direct.is_streaming(data.len() as u64);
        self.append(engine, offset, &Write::Data(data), data.len() as u64)
    }

    /// Makes a range read as zeroes.
    pub fn zero(&self, engine: &Engine, offset: u64, len: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        self.append_waiting(engine, offset, &Write::Zero, len)?;
        engine.written()
    }

    /// One record, once the journal has room for it.
    fn append_waiting(
        &self,
        engine: &Engine,
        offset: u64,
        write: &Write<'_>,
        len: u64,
    ) -> Result<()> {
        // Who has chosen places does not wait for the collector, who waits for that.
        let may_wait = !matches!(write, Write::Chunks(_));
        loop {
            engine.wait_for_pieces(may_wait)?;
            let rounds = engine.rounds();
            if self.append(engine, offset, write, len)? {
                return Ok(());
            }
            engine.make_room(rounds, may_wait)?;
        }
    }

    /// One record, behind the gate. False when the journal has no room for it.
    fn append(&self, engine: &Engine, offset: u64, write: &Write<'_>, len: u64) -> Result<bool> {
        let _gate = self.gate.read();
        self.expect_takes(engine, offset, len)?;
        let volume = self.id;
        let (record, source) = match write {
            Write::Data(data) => (
                Record::Write {
                    volume,
                    offset_bytes: offset,
                    data,
                },
                Source::Record { skip: 0 },
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
        // Before the piece can be found.
        if let Write::Data(data) = write {
            self.keep_pages(engine, offset, data, position);
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
            let why = "the volume has become smaller";
            return Err(StoreError::new(StoreErrorKind::Invalid, why));
        }
        let keeps = state.kept.is_some();
        drop(state);
        match keeps {
            true => self.expect_writable(engine),
            false => Ok(()),
        }
    }

    fn keep_pages(&self, engine: &Engine, offset: u64, data: &[u8], position: JournalPosition) {
        let lead = (offset.next_multiple_of(PAGE_BYTES) - offset) as usize;
        let whole = data.get(lead..).unwrap_or_default();
        let first = offset.div_ceil(PAGE_BYTES);
        for (page, bytes) in (first..).zip(whole.chunks_exact(PAGE_BYTES as usize)) {
            if let Ok(bytes) = bytes.try_into() {
                engine
                    .backing
                    .cache
                    .put_unwritten(self.object, page, position.0, bytes);
            }
        }
    }

    /// True when reading the range is likely to need no device.
    pub fn is_cached(&self, engine: &Engine, offset: u64, len: u64) -> bool {
        let end = offset.saturating_add(len);
        let (pieces, root) = {
            let state = self.state();
            if state.closed || end > state.size {
                return true;
            }
            (state.pieces(offset, end), state.root)
        };
        let chunks = (offset >> self.log2)..=(end.saturating_sub(1) >> self.log2);
        if chunks.clone().count() > CACHED_CHUNKS_MAX {
            return false;
        }
        let in_memory = |piece: &Piece| match &piece.source {
            Source::Zero | Source::Lost => true,
            Source::Chunks(chunks) => {
                let step = self.chunk_bytes() as usize;
                (0..piece.len).step_by(step).all(|at| {
                    let (fingerprint, _) = chunks.at(at);
                    fingerprint.is_hole() || engine.backing.cache.is_content_resident(&fingerprint)
                })
            }
            Source::Record { .. } => {
                let pages = piece.offset / PAGE_BYTES..piece.end().div_ceil(PAGE_BYTES);
                pages.into_iter().all(|page| {
                    engine
                        .backing
                        .cache
                        .is_unwritten_resident(self.object, page, piece.position.0)
                })
            }
        };
        if !pieces.iter().all(in_memory) {
            return false;
        }
        let covered: u64 = pieces.iter().map(|p| p.len).sum();
        covered == len
            || chunks.into_iter().all(|chunk| {
                let place = Place {
                    object: self.object,
                    chunk,
                };
                engine.backing.cache.is_resident(place) || self.is_known_hole(engine, &root, chunk)
            })
    }

    /// True when the recipe nodes in memory say that the chunk is a hole, or where it is cached.
    fn is_known_hole(&self, engine: &Engine, root: &ObjectRoot, chunk: u64) -> bool {
        let reader = engine.backing.pool.reader();
        let miss = || StoreError::new(StoreErrorKind::NotFound, String::new());
        let offset = chunk << self.log2;
        let found = fixed_chunk(root, self.log2, offset, &mut |node: &Fingerprint| {
            reader.cached_chunk(node).ok_or_else(miss)
        });
        found.is_ok_and(|f| f.is_hole() || engine.backing.cache.is_content_resident(&f))
    }
}

/// A direct write is entered in parts of this size, a multiple of every chunk size.
const DIRECT_PART_BYTES: usize = 1 << 20;

/// What is appended.
enum Write<'a> {
    Data(&'a [u8]),
    Zero,
    Chunks(Arc<[Fingerprint]>),
}

/// Longer requests are handed to a thread anyway: asking for each chunk would cost as much as
/// reading.
const CACHED_CHUNKS_MAX: usize = 16;

impl State {
    fn expect_open(&self) -> Result<()> {
        match self.closed {
            false => Ok(()),
            true => Err(StoreError::new(
                StoreErrorKind::NotFound,
                "the volume was deleted",
            )),
        }
    }

    /// True while the root is not all of it.
    pub fn is_dirty(&self) -> bool {
        !self.active.is_empty() || self.frozen.is_some()
    }

    fn may_alias(&self, root: &ObjectRoot) -> bool {
        self.aliasing && self.root == *root
    }

    /// What the overlays know of `[from, to)`, in order.
    pub fn pieces(&self, from: u64, to: u64) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let Some(frozen) = &self.frozen else {
            self.active.visit(from, to, |piece| pieces.push(piece));
            return pieces;
        };
        let mut at = from;
        self.active.visit(from, to, |piece| {
            frozen.visit(at, piece.offset, |older| pieces.push(older));
            at = piece.end();
            pieces.push(piece);
        });
        frozen.visit(at, to, |older| pieces.push(older));
        pieces
    }
}

#[cfg(test)]
mod tests;
