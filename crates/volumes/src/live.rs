//! One open volume: its layers, and the locks that order writes and checkpoints.
//!
//! Handles, the write path and checkpoints call this.
//! Invariant: the layers of one moment hold what was acknowledged at that moment or is being
//! written. Every write is in the journal before it is in the active overlay, and both happen
//! behind the gate. So a freeze at journal position P finds exactly the writes below P.

mod read;

use super::backing::Backing;
use super::direct::DirectLanes;
use super::kept::KeptRanges;
use super::overlay::{Overlay, Piece, Source};
use super::tally::CacheMeter;
use super::tracing::Recorder;
use super::tracker::AccessTracker;
use chunk_store::recipe::fixed_chunk;
use format::recipe::{Layout, ObjectRoot};
use format::volume::VolumeRecord;
use page_cache::Place;
use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::ops::Range;
use std::sync::Arc;
use store::trace_key;
use store::{Result, StoreError, StoreErrorKind};
use units::{Fingerprint, VolumeId};

/// Size of a dirty page in the page cache, bytes.
pub(super) const PAGE_BYTES: u64 = 4096;

/// Journal bytes of a record besides its data: header, tag, and its part of batch and padding.
const RECORD_BYTES: u64 = 256;

/// Layers of a volume, newest first: active, frozen, root.
pub(super) struct VolumeLayers {
    /// Size that clients may address, bytes.
    pub size: u64,
    pub active: Overlay,
    /// Present while a checkpoint works on it.
    pub frozen: Option<Arc<Overlay>>,
    pub root: ObjectRoot,
    /// The active overlay has writes that no checkpoint has tried to take.
    pub fresh: bool,
    /// Positions of the writes that the last checkpoint left in the journal, and of others between
    /// them. The next one takes them unless they were written again.
    pub held: Range<u64>,
    /// Writes that the last checkpoint could not take.
    pub kept: Option<Arc<KeptRanges>>,
    /// Whether the page cache may learn places of `root`: not while `root` is replaced.
    pub aliasing: bool,
    /// The volume was deleted: every request fails.
    pub closed: bool,
}

/// An open volume.
pub(crate) struct LiveVolume {
    backing: Arc<Backing>,
    direct: Arc<DirectLanes>,
    pub id: VolumeId,
    /// Object number in the page cache. Numbers are never reused.
    pub object: u64,
    pub log2: u8,
    state: RwLock<VolumeLayers>,
    /// Writers hold it for reading while they append and enter a write; a freeze holds it for
    /// writing.
    gate: RwLock<()>,
    /// Serializes administrative changes of the volume.
    administration: Mutex<()>,
    tracker: AccessTracker,
    /// Records what is read of the volume.
    recorder: Arc<Recorder>,
    /// Counts where requests found their data.
    pub meter: CacheMeter,
}

impl LiveVolume {
    pub fn new(
        backing: Arc<Backing>,
        direct: Arc<DirectLanes>,
        record: &VolumeRecord,
        object: u64,
        active: Overlay,
    ) -> Self {
        let root = record.root;
        Self {
            recorder: backing.tracer.recorder(trace_key(&record.id.0)),
            backing,
            direct,
            id: record.id,
            object,
            log2: layout_log2(record),
            state: RwLock::new(VolumeLayers {
                size: root.len,
                fresh: !active.is_empty(),
                held: 0..0,
                kept: None,
                active,
                frozen: None,
                root,
                aliasing: true,
                closed: false,
            }),
            gate: RwLock::new(()),
            administration: Mutex::new(()),
            tracker: AccessTracker::new(root.len),
            meter: CacheMeter::default(),
        }
    }

    pub fn state(&self) -> RwLockReadGuard<'_, VolumeLayers> {
        self.state.read()
    }

    pub fn state_mut(&self) -> RwLockWriteGuard<'_, VolumeLayers> {
        self.state.write()
    }

    /// Closes the gate to writers. Those that were inside have entered their writes.
    pub fn shut(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write()
    }

    /// Enters the gate. Writers hold it from before they append until they have entered the write.
    pub fn enter(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read()
    }

    /// Locks out other administrative changes of the volume.
    pub fn administer(&self) -> MutexGuard<'_, ()> {
        self.administration.lock()
    }

    /// Returns the size of a chunk, bytes.
    pub fn chunk_bytes(&self) -> u64 {
        1 << self.log2
    }

    /// Records which writes the last checkpoint could not take.
    pub fn note_kept(&self, kept: Option<KeptRanges>) {
        let mut state = self.state_mut();
        state.kept = kept.map(|mut kept| {
            for range in &kept.ranges {
                state.active.visit(range.start, range.end, |piece| {
                    kept.pieces += 1;
                    kept.bytes += piece.journal_bytes() + RECORD_BYTES;
                });
            }
            Arc::new(kept)
        });
    }

    /// Returns true if reading the range probably needs no device.
    pub fn is_cached(&self, offset: u64, len: u64) -> bool {
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
                    chunks.at(at).is_ok_and(|(fingerprint, _)| {
                        fingerprint.is_hole()
                            || self.backing.cache.is_content_resident(&fingerprint)
                    })
                })
            }
            Source::Record { .. } => {
                let pages = piece.offset / PAGE_BYTES..piece.end().div_ceil(PAGE_BYTES);
                pages.into_iter().all(|page| {
                    self.backing
                        .cache
                        .is_dirty_resident(self.object, page, piece.position.0)
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
                self.backing.cache.is_resident(place) || self.is_known_hole(&root, chunk)
            })
    }

    /// Makes the device begin with a read that follows soon; see [`volume::Prefetch::announce`].
    pub fn announce(&self, offset: u64, len: u64) -> bool {
        let end = offset.saturating_add(len);
        let chunk = offset >> self.log2;
        let root = {
            let state = self.state();
            // Bytes in the journal are read in another way.
            let is_plain = !state.closed
                && end <= state.size
                && state.pieces(offset, end).is_empty()
                && end.saturating_sub(1) >> self.log2 == chunk;
            is_plain.then_some(state.root)
        };
        let reader = self.backing.pool.reader();
        self.backing.announces()
            && root
                .and_then(|root| self.known_chunk(&root, chunk))
                .is_some_and(|f| !f.is_hole() && reader.announce(&f))
    }

    /// Returns true if the recipe nodes in memory say that the chunk is a hole, or name a
    /// fingerprint that is in the page cache.
    fn is_known_hole(&self, root: &ObjectRoot, chunk: u64) -> bool {
        let found = self.known_chunk(root, chunk);
        found.is_some_and(|f| f.is_hole() || self.backing.cache.is_content_resident(&f))
    }

    /// Returns the fingerprint of a chunk if the recipe nodes in memory have it.
    fn known_chunk(&self, root: &ObjectRoot, chunk: u64) -> Option<Fingerprint> {
        let reader = self.backing.pool.reader();
        let miss = || StoreError::new(StoreErrorKind::NotFound, String::new());
        let offset = chunk << self.log2;
        let found = fixed_chunk(root, self.log2, offset, &mut |node: &Fingerprint| {
            reader.cached_chunk(node).ok_or_else(miss)
        });
        found.ok()
    }
}

/// Longer requests are handed to a thread without a check, which would cost as much as the read.
const CACHED_CHUNKS_MAX: usize = 16;

impl VolumeLayers {
    pub fn expect_open(&self) -> Result<()> {
        match self.closed {
            false => Ok(()),
            true => Err(StoreError::new(
                StoreErrorKind::NotFound,
                "the volume was deleted",
            )),
        }
    }

    /// Returns true while the root lacks writes.
    pub fn is_dirty(&self) -> bool {
        !self.active.is_empty() || self.frozen.is_some()
    }

    fn may_alias(&self, root: &ObjectRoot) -> bool {
        self.aliasing && self.root == *root
    }

    /// Returns the overlays' pieces in `[from, to)`, in order. Active pieces hide frozen ones.
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

/// Returns log2 of the volume's chunk size.
pub(super) fn layout_log2(record: &VolumeRecord) -> u8 {
    match record.root.layout {
        Layout::Fixed(log2) => log2,
        Layout::Variable => 0,
    }
}
