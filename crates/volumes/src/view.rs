//! Serves snapshots, and other objects of the pool, as read-only disks. They share the page cache
//! with the volumes: a chunk that one of them has read is a hit for all.
//!
//! [`Volumes::view`] creates a view; front ends call it through [`Volume`].
//! Invariant: all returned bytes were verified. Damage is an I/O error for the damaged range only.

use super::Volumes;
use super::around;
use super::backing::Backing;
use super::engine::Engine;
use super::fetcher::Fetchable;
use super::reading::{Reading, RecipeReader, TrackedRequest};
use super::states::States;
use super::tally::CacheMeter;
use super::tracing::Recorder;
use super::tracker::AccessTracker;
use access_pattern::Fetch;
use chunk_store::recipe::{FixedLeaves, Leaf};
use format::recipe::{Layout, ObjectRoot};
use format::snapshot::Snapshot;
use page_cache::Place;
use std::ops::ControlFlow;
use std::sync::Arc;
use store::Result;
use store::{Approach, ChunkRef, ImageVolume};
use store::{OpenSnapshot, trace_key};
use units::IoClass;
use volume::{
    Capabilities, Durability, Extent, FastPath, Prefetch, RequestContext, Volume, VolumeError,
    VolumeErrorKind, VolumeInfo,
};

/// An object that is served through the volumes' page cache.
pub struct View {
    engine: Arc<Engine>,
    viewed: Arc<Viewed>,
    /// Keeps the viewed containers from garbage collection.
    _open: Option<OpenSnapshot>,
}

struct Viewed {
    backing: Arc<Backing>,
    object: u64,
    image: ImageVolume,
    tracker: AccessTracker,
    meter: Arc<CacheMeter>,
    /// Records what is read, if the object is a snapshot.
    recorder: Option<Arc<Recorder>>,
}

impl Volumes {
    /// Serves an object of the pool as a read-only disk. `description` is one line for humans.
    pub fn view(&self, root: ObjectRoot, description: String) -> View {
        let reader = Arc::clone(self.engine.backing.pool.reader());
        self.view_image(
            ImageVolume::new(reader, root, description),
            Arc::default(),
            None,
        )
    }

    /// Like [`Volumes::view`] for a snapshot, and reports changes since other states. Adds where
    /// requests find their data to `meter`.
    pub fn view_state(
        &self,
        snapshot: &Snapshot,
        description: String,
        meter: Arc<CacheMeter>,
    ) -> View {
        let pool = &self.engine.backing.pool;
        let image = ImageVolume::new(Arc::clone(pool.reader()), snapshot.root, description);
        let states = States::beside(Arc::clone(pool), snapshot);
        let recorder = Some(
            self.engine
                .backing
                .tracer
                .recorder(trace_key(&snapshot.id.0)),
        );
        self.view_image(image.comparable_with(Arc::new(states)), meter, recorder)
    }

    fn view_image(
        &self,
        image: ImageVolume,
        meter: Arc<CacheMeter>,
        recorder: Option<Arc<Recorder>>,
    ) -> View {
        let engine = Arc::clone(&self.engine);
        let viewed = Viewed {
            backing: Arc::clone(&engine.backing),
            object: engine.backing.new_object(),
            tracker: AccessTracker::new(image.root().len),
            image,
            meter,
            recorder,
        };
        View {
            engine,
            viewed: Arc::new(viewed),
            _open: None,
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.engine.backing.cache.forget_object(self.viewed.object);
    }
}

impl RecipeReader for Viewed {
    fn object(&self) -> u64 {
        self.object
    }

    fn log2(&self) -> Option<u8> {
        match self.image.root().layout {
            Layout::Fixed(log2) => Some(log2),
            Layout::Variable => None,
        }
    }

    fn len(&self) -> u64 {
        self.image.root().len
    }

    fn leaf(
        &self,
        at: u64,
        leaves: &mut Option<FixedLeaves<ChunkRef>>,
        approach: Approach,
    ) -> Result<Leaf> {
        self.image.piece(at, leaves, approach)
    }

    fn with_place(&self, place: Option<Place>, enter: &mut dyn FnMut(Option<Place>)) {
        enter(place);
    }
}

impl Fetchable for Viewed {
    fn fetch_around(&self, from: u64, to: u64, class: IoClass) -> Result<()> {
        around::fetch(&self.backing, self, from..to, class)
    }

    fn fetch(&self, from: u64, to: u64, class: IoClass) -> Result<u64> {
        let mut reading = Reading::ahead(&self.backing, class);
        reading.warm(self, from, to)?;
        Ok(reading.loaded)
    }
}

impl View {
    /// Keeps `open`, of the viewed snapshot, until the view is dropped.
    pub fn keeping(mut self, open: Option<OpenSnapshot>) -> Self {
        self._open = open;
        self
    }

    fn submit(&self, fetch: &Fetch, class: IoClass) {
        let viewed: Arc<dyn Fetchable> = Arc::clone(&self.viewed) as _;
        self.engine.fetcher.submit(&viewed, fetch, class);
    }
}

impl Volume for View {
    fn info(&self) -> VolumeInfo {
        self.viewed.image.info()
    }

    fn size_bytes(&self) -> u64 {
        self.viewed.len()
    }

    fn read(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        into: &mut [u8],
    ) -> std::result::Result<(), VolumeError> {
        if let Some(recorder) = &self.viewed.recorder {
            recorder.record(offset_bytes, into.len() as u64);
        }
        let tracked = TrackedRequest {
            tracker: &self.viewed.tracker,
            object_bytes: self.viewed.len(),
            request: (offset_bytes, into.len() as u64),
            context,
            submit: &|fetch| self.submit(&fetch, context.class),
            meter: &self.viewed.meter,
            recorder: self.viewed.recorder.as_deref(),
        };
        Reading::judged(&self.engine.backing, tracked)
            .fill(&*self.viewed, offset_bytes, into)
            .map_err(|e| VolumeError::new(VolumeErrorKind::Io, e))
    }

    fn write(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        data: &[u8],
        durability: Durability,
    ) -> std::result::Result<(), VolumeError> {
        let image = &self.viewed.image;
        image.write(context, offset_bytes, data, durability)
    }

    fn flush(&self, context: RequestContext) -> std::result::Result<(), VolumeError> {
        self.viewed.image.flush(context)
    }

    fn discard(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> std::result::Result<(), VolumeError> {
        self.viewed.image.discard(context, offset_bytes, len_bytes)
    }

    fn write_zeroes(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        may_free: bool,
        durability: Durability,
    ) -> std::result::Result<(), VolumeError> {
        let image = &self.viewed.image;
        image.write_zeroes(context, offset_bytes, len_bytes, may_free, durability)
    }

    fn extents(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        visit: &mut dyn FnMut(Extent) -> ControlFlow<()>,
    ) -> std::result::Result<(), VolumeError> {
        let image = &self.viewed.image;
        image.extents(context, offset_bytes, len_bytes, visit)
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            fast_path: Some(self),
            changes: Some(&self.viewed.image),
            prefetch: Some(self),
        }
    }
}

impl FastPath for View {
    fn is_cached(&self, _context: RequestContext, offset_bytes: u64, len_bytes: u64) -> bool {
        let end = offset_bytes.saturating_add(len_bytes);
        let in_cache = |f: &units::Fingerprint| self.engine.backing.cache.is_content_resident(f);
        let Some(log2) = self.viewed.log2() else {
            return self.viewed.image.is_known(offset_bytes, end, &in_cache);
        };
        let chunks = (offset_bytes >> log2)..=(end.saturating_sub(1) >> log2);
        // Longer requests are handed to a thread without a check, which would cost as much as the
        // read.
        chunks.clone().count() <= CACHED_CHUNKS_MAX
            && chunks.into_iter().all(|chunk| {
                let place = Place {
                    object: self.viewed.object,
                    chunk,
                };
                let (at, end) = (chunk << log2, (chunk + 1) << log2);
                self.engine.backing.cache.is_resident(place)
                    || self.viewed.image.is_known(at, end, &in_cache)
            })
    }

    fn write_now(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        data: &[u8],
    ) -> std::result::Result<bool, VolumeError> {
        self.viewed.image.write_now(context, offset_bytes, data)
    }
}

impl View {
    /// Returns the chunk that contains all of a range, if memory says which it is.
    fn one_chunk(&self, offset_bytes: u64, len_bytes: u64) -> Option<units::Fingerprint> {
        let piece = self.viewed.image.known_piece(offset_bytes)?;
        let end = offset_bytes.saturating_add(len_bytes);
        let is_one = end <= piece.offset.saturating_add(piece.len);
        (is_one && !piece.fingerprint.is_hole()).then_some(piece.fingerprint)
    }
}

impl Prefetch for View {
    fn announce(&self, _context: RequestContext, offset_bytes: u64, len_bytes: u64) -> bool {
        let reader = self.engine.backing.pool.reader();
        let chunk = self.one_chunk(offset_bytes, len_bytes);
        self.engine.backing.announces() && chunk.is_some_and(|chunk| reader.announce(&chunk))
    }

    fn prefetch(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) {
        let fetch = super::fetcher::hinted(offset_bytes, len_bytes);
        self.submit(&fetch, context.class);
    }
}

/// Maximum number of chunks that are checked, as for volumes.
const CACHED_CHUNKS_MAX: usize = 16;
