//! Reads of a live volume: through the layers of one moment, newest first, down to the recipe. Also
//! fetches ranges ahead, except data that only the journal has.
//!
//! Handles, checkpoints and the fetcher call this.
//! Invariant: a read sees the layers of one moment. If a checkpoint frees what these layers refer
//! to, the read starts again with new layers.

use super::super::around;
use super::super::fetcher::{Fetchable, Fetcher, hinted};
use super::super::overlay::{DirectChunks, Piece, Source};
use super::super::reading::{Reading, RecipeReader, TrackedRequest};
use super::{LiveVolume, PAGE_BYTES};
use access_pattern::Fetch;
use chunk_store::recipe::{FixedLeaves, Leaf};
use format::recipe::ObjectRoot;
use media::Need;
use page_cache::Place;
use std::sync::Arc;
use store::{Approach, ChunkRef};
use store::{Result, StoreError, StoreErrorKind};
use units::{Fingerprint, IoClass, Part};
use volume::RequestContext;

/// Maximum number of checkpoints that may overtake one read.
const LOOKS_MAX: u32 = 100;

/// Layers over a range: pieces in order, and the root for the gaps.
struct Layers {
    pieces: Vec<Piece>,
    root: ObjectRoot,
}

impl LiveVolume {
    /// Fills `into` from byte `offset`.
    pub fn read(
        self: &Arc<Self>,
        fetcher: &Fetcher,
        context: RequestContext,
        offset: u64,
        into: &mut [u8],
    ) -> Result<()> {
        self.recorder.record(offset, into.len() as u64);
        let mut looks = 0;
        loop {
            let layers = self.layers(offset, into.len() as u64)?;
            let tracked = TrackedRequest {
                tracker: &self.tracker,
                object_bytes: layers.root.len,
                request: (offset, into.len() as u64),
                context,
                submit: &|fetch| self.submit(fetcher, &fetch, context.class),
                meter: &self.meter,
                recorder: Some(&self.recorder),
            };
            let mut reading = Reading::judged(&self.backing, tracked);
            match self.fill(&layers, offset, into, &mut reading) {
                // A checkpoint has applied the piece and freed its slot meanwhile: look again.
                Err(e) if e.kind == StoreErrorKind::NotFound && looks < LOOKS_MAX => looks += 1,
                result => return result,
            }
        }
    }

    fn layers(&self, offset: u64, len: u64) -> Result<Layers> {
        let state = self.state();
        state.expect_open()?;
        let end = offset.saturating_add(len);
        if end > state.size {
            let why = format!("bytes {offset} to {end} of {}", state.size);
            return Err(StoreError::new(StoreErrorKind::Invalid, why));
        }
        Ok(Layers {
            pieces: state.pieces(offset, end),
            root: state.root,
        })
    }

    fn fill(
        &self,
        layers: &Layers,
        offset: u64,
        into: &mut [u8],
        reading: &mut Reading<'_>,
    ) -> Result<()> {
        let below = RootOf {
            volume: self,
            root: &layers.root,
        };
        let mut at = offset;
        let mut rest = into;
        for piece in &layers.pieces {
            let gap = usize::try_from(piece.offset - at).unwrap_or(usize::MAX);
            let (now, later) = rest.split_at_mut(gap.min(rest.len()));
            reading.fill(&below, at, now)?;
            let len = usize::try_from(piece.len).unwrap_or(usize::MAX);
            let (now, later) = later.split_at_mut(len.min(later.len()));
            self.fill_from_piece(piece, now, reading)?;
            rest = later;
            at = piece.end();
        }
        reading.fill(&below, at, rest)
    }

    /// Reads one piece: from dirty pages in memory, otherwise from the journal.
    fn fill_from_piece(
        &self,
        piece: &Piece,
        into: &mut [u8],
        reading: &mut Reading<'_>,
    ) -> Result<()> {
        let skip = match &piece.source {
            Source::Record { skip, .. } => *skip,
            Source::Zero => {
                into.fill(0);
                return Ok(());
            }
            Source::Lost => {
                let place = format!("bytes {} to {}", piece.offset, piece.end());
                let found = "its record in the journal is damaged";
                return Err(StoreError::corruption("written data", place, found));
            }
            Source::Chunks(chunks) => {
                return self.fill_from_chunks(chunks, into, reading);
            }
        };
        let mut at = piece.offset;
        let mut rest = into;
        while !rest.is_empty() {
            let page = at / PAGE_BYTES;
            let within = (at % PAGE_BYTES) as usize;
            let Some(frame) = self
                .backing
                .cache
                .dirty(self.object, page, piece.position.0)
            else {
                reading.tally.misses += 1;
                let skip = skip as usize + (at - piece.offset) as usize;
                return self.backing.journal.read(piece.position, skip, rest);
            };
            reading.tally.hits_dirty += 1;
            let take = (PAGE_BYTES as usize - within).min(rest.len());
            let (now, later) = rest.split_at_mut(take);
            now.copy_from_slice(frame.part(within..within + take)?);
            rest = later;
            at += take as u64;
        }
        Ok(())
    }

    fn fill_from_chunks(
        &self,
        chunks: &DirectChunks,
        into: &mut [u8],
        reading: &mut Reading<'_>,
    ) -> Result<()> {
        let mut at = 0;
        let mut rest = into;
        while !rest.is_empty() {
            let (fingerprint, within) = chunks.at(at)?;
            let take = (self.chunk_bytes() as usize - within).min(rest.len());
            let (now, later) = rest.split_at_mut(take);
            rest = later;
            at += take as u64;
            if fingerprint.is_hole() {
                now.fill(0);
                continue;
            }
            if self.direct.is_unsettled() {
                let cached = self
                    .backing
                    .cache
                    .by_content(&fingerprint, None, reading.why());
                if let Some(frame) = cached {
                    reading.tally.hits_by_content += 1;
                    now.copy_from_slice(frame.part(within..within + take)?);
                    continue;
                }
                // A read of acknowledged data must not fail for lack of space.
                self.direct.settle_for(Need::Deletion)?;
            }
            let mut fits = true;
            let no_place = &|enter: &mut dyn FnMut(Option<Place>)| enter(None);
            reading.with_chunk(&fingerprint, no_place, &mut |bytes| match bytes
                .get(within..within + take)
            {
                Some(part) => now.copy_from_slice(part),
                None => fits = false,
            })?;
            if !fits {
                let found = "it is shorter than the chunks of its volume";
                return Err(StoreError::corruption("chunk", fingerprint, found));
            }
        }
        Ok(())
    }

    /// Reads one piece for a checkpoint.
    pub fn fill_piece(&self, piece: &Piece, into: &mut [u8]) -> Result<()> {
        self.fill_from_piece(piece, into, &mut Reading::single(&self.backing))
    }

    /// Reads what lies below the overlays, for a checkpoint. Returns true if a chunk was read, and
    /// not only holes.
    pub fn fill_root(&self, root: &ObjectRoot, offset: u64, into: &mut [u8]) -> Result<bool> {
        let below = RootOf { volume: self, root };
        let mut reading = Reading::single(&self.backing);
        reading.fill(&below, offset, into)?;
        Ok(reading.tally.looks() > 0)
    }

    /// Queues a range that a client asked to have fetched.
    pub fn prefetch(self: &Arc<Self>, fetcher: &Fetcher, class: IoClass, offset: u64, len: u64) {
        self.submit(fetcher, &hinted(offset, len), class);
    }

    fn submit(self: &Arc<Self>, fetcher: &Fetcher, fetch: &Fetch, class: IoClass) {
        let volume: Arc<dyn Fetchable> = Arc::clone(self) as _;
        fetcher.submit(&volume, fetch, class);
    }
}

/// A volume's recipe at one moment.
struct RootOf<'a> {
    volume: &'a LiveVolume,
    root: &'a ObjectRoot,
}

impl RecipeReader for RootOf<'_> {
    fn object(&self) -> u64 {
        self.volume.object
    }

    fn log2(&self) -> Option<u8> {
        Some(self.volume.log2)
    }

    fn len(&self) -> u64 {
        self.root.len
    }

    fn leaf(
        &self,
        at: u64,
        leaves: &mut Option<FixedLeaves<ChunkRef>>,
        approach: Approach,
    ) -> Result<Leaf> {
        let (root, log2) = (self.root, self.volume.log2);
        let reader = self.volume.backing.pool.reader();
        let load = &mut |node: &Fingerprint| reader.node(node, approach.of_recipe());
        Ok(Leaf {
            offset: at & !((1 << log2) - 1),
            len: 1 << log2,
            fingerprint: FixedLeaves::chunk_at(leaves, root, log2, at, load)?,
        })
    }

    fn with_place(&self, place: Option<Place>, enter: &mut dyn FnMut(Option<Place>)) {
        let state = self.volume.state();
        enter(place.filter(|_| state.may_alias(self.root)));
    }
}

impl Fetchable for LiveVolume {
    fn fetch_around(&self, from: u64, to: u64, class: IoClass) -> Result<()> {
        let root = {
            let state = self.state();
            state.expect_open()?;
            state.root
        };
        let below = RootOf {
            volume: self,
            root: &root,
        };
        around::fetch(&self.backing, &below, from..to, class)
    }

    fn fetch(&self, from: u64, to: u64, class: IoClass) -> Result<u64> {
        let to = to.min(self.state().size);
        let layers = self.layers(from, to.saturating_sub(from))?;
        let below = RootOf {
            volume: self,
            root: &layers.root,
        };
        let mut reading = Reading::ahead(&self.backing, class);
        let mut at = from;
        for piece in &layers.pieces {
            reading.warm(&below, at, piece.offset)?;
            if let Source::Chunks(chunks) = &piece.source
                && !self.direct.is_unsettled()
            {
                let no_place = &|enter: &mut dyn FnMut(Option<Place>)| enter(None);
                for byte in (0..piece.len).step_by(self.chunk_bytes() as usize) {
                    let (fingerprint, _) = chunks.at(byte)?;
                    if !fingerprint.is_hole() {
                        reading.with_chunk(&fingerprint, no_place, &mut |_| {})?;
                    }
                }
            }
            at = piece.end();
        }
        reading.warm(&below, at, to)?;
        Ok(reading.loaded)
    }
}
