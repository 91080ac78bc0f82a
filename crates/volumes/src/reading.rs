//! Reads chunks for one request: from the page cache by place, from the recipe, from the page cache
//! by fingerprint, and at last from the region.
//!
//! ```text
//! by place ─ miss ─> judge once, submit read-ahead ─> recipe leaf ─> by fingerprint ─ miss ─┐
//!                                                         └─ hole: zeroes                    │
//! page cache <── load region <───────────────────────────────────────────────────────────────┘
//! ```
//!
//! Live volumes, views and the fetcher call this.
//! Invariant: every copied byte was verified against its fingerprint by the thread that read it. A
//! request is judged once, at its first miss. Its read-ahead is queued before the request waits for
//! the device. What is in memory already, as it was fetched ahead or by a less important class, is
//! offered to the fast tier by the first request that says what it is for.

mod long;
mod straight;

use super::backing::Backing;
use super::decisions::Meters;
use super::tally::{CacheMeter, CacheTally};
use super::tracing::Recorder;
use super::tracker::{AccessTracker, LongRequest};
use access_pattern::{Fetch, FetchInto};
use chunk_store::recipe::{FixedLeaves, Leaf};
use long::Rest;
use media::{IoOrigin, IoOriginScope};
use page_cache::{Frame, Place, Purpose, Use};
use std::cell::{Cell, RefCell};
use store::{Approach, ChunkRef, Keep, Loaded, Route};
use store::{Result, StoreError};
use straight::LONG_BYTES;
use units::{Fingerprint, IoClass, Part};
use volume::RequestContext;

/// How often a chunk may be evicted from the page cache between its insertion by another thread and
/// the lookup here.
const LOOKS_MAX: u32 = 4;

/// Recipe that is read: of a volume at one moment, or of a snapshot.
pub(super) trait RecipeReader {
    /// Returns its object number in the page cache.
    fn object(&self) -> u64;

    /// Returns log2 of the chunk size, if all chunks have the same size.
    fn log2(&self) -> Option<u8>;

    /// Returns its size, bytes. Bytes after the end read as zeroes.
    fn len(&self) -> u64;

    /// Returns the chunk or hole that contains byte `at`, which is below the end. May keep
    /// neighbouring leaves in `leaves`.
    fn leaf(
        &self,
        at: u64,
        leaves: &mut Option<FixedLeaves<ChunkRef>>,
        approach: Approach,
    ) -> Result<Leaf>;

    /// Calls `enter` with the place, or with `None` if the page cache may not learn places now.
    /// That stays so until `enter` returns.
    fn with_place(&self, place: Option<Place>, enter: &mut dyn FnMut(Option<Place>));
}

/// Calls back with the place under which the page cache may know a chunk; see
/// [`RecipeReader::with_place`].
pub(super) type Alias<'a> = dyn Fn(&mut dyn FnMut(Option<Place>)) + 'a;

/// Judges a request and submits its read-ahead.
pub(super) struct TrackedRequest<'a> {
    pub tracker: &'a AccessTracker,
    /// Size of the object, bytes.
    pub object_bytes: u64,
    /// Offset and length of the request, bytes.
    pub request: (u64, u64),
    pub context: RequestContext,
    pub submit: &'a dyn Fn(Fetch),
    pub meter: &'a CacheMeter,
    /// Recorder whose buffer is emptied at a miss.
    pub recorder: Option<&'a Recorder>,
}

/// State of one request. See the module's head.
pub(super) struct Reading<'a> {
    backing: &'a Backing,
    tracked: Option<TrackedRequest<'a>>,
    /// Set for a long request of a client.
    long: Option<LongRequest<'a>>,
    /// Chosen at the first miss.
    approach: Option<Approach>,
    /// Names the I/O origin from then on, for the device's queue.
    asking: Option<IoOriginScope>,
    /// Other chunks of a loaded region are inserted into the page cache too.
    gathers: bool,
    /// The request was judged, and follows no stream.
    is_random: bool,
    /// The whole request lies in one chunk: other chunks of its region are not needed.
    alone: bool,
    /// First byte of the current chunk in the object, and the bytes that are needed of it.
    needs: (u64, u64),
    /// Length of what the request needs from the current chunk on, bytes.
    ahead_bytes: u64,
    why: Purpose,
    pub tally: CacheTally,
    leaves: Option<FixedLeaves<ChunkRef>>,
    /// The chunk that was loaded last, in its region.
    last: Option<ChunkRef>,
    /// Number of regions that came from the device.
    pub loaded: u64,
    /// Surroundings of the request, for the fast tier. Fetched if a container was read.
    around: Option<Fetch>,
    /// Chunks that came from a container with others of this request, which the fast tier is
    /// offered if the request needs them.
    brought: Vec<Fingerprint>,
}

impl<'a> Reading<'a> {
    /// For a request of a waiting client.
    pub fn judged(backing: &'a Backing, tracked: TrackedRequest<'a>) -> Self {
        let (offset, len) = tracked.request;
        let due = tracked.tracker.awaits(offset, offset.saturating_add(len));
        let mut reading = Self::new(backing, Use::Demand.of(tracked.context.class));
        reading.long = (len >= LONG_BYTES).then(|| tracked.tracker.begin_long(len));
        reading.tracked = Some(tracked);
        if due {
            reading.approach();
        }
        reading
    }

    /// For destaging: single chunks at random places that are not needed again.
    pub fn single(backing: &'a Backing) -> Self {
        let mut reading = Self::new(backing, Use::Scan.into());
        // The old bytes of a chunk that is changed are no longer needed.
        reading.approach = Some(Approach {
            admit: None,
            ..reading.approach_for(true)
        });
        reading.ask(true);
        reading
    }

    /// For read-ahead and prefetch, for requests of that class.
    pub fn ahead(backing: &'a Backing, class: IoClass) -> Self {
        let mut reading = Self::new(backing, Use::Prefetch.of(class));
        reading.approach = Some(Approach {
            admit: None,
            ..reading.approach_for(false)
        });
        reading.ask(false);
        reading.gathers = true;
        reading
    }

    fn new(backing: &'a Backing, why: Purpose) -> Self {
        Self {
            backing,
            tracked: None,
            long: None,
            approach: None,
            asking: None,
            gathers: false,
            is_random: false,
            alone: false,
            needs: (0, 0),
            ahead_bytes: 0,
            why,
            tally: CacheTally::default(),
            leaves: None,
            last: None,
            loaded: 0,
            around: None,
            brought: Vec::new(),
        }
    }

    /// Returns the purpose of the request.
    pub fn why(&self) -> Purpose {
        self.why
    }

    fn approach_for(&self, is_random: bool) -> Approach {
        let switches = self.backing.access.switches;
        let route = match is_random && switches.direct_regions {
            true => Route::Region,
            false => Route::Directory,
        };
        Approach {
            route,
            shares: switches.shared_reads,
            // Sequential readers do not fill the fast tier (DDFS), unless a policy says so.
            admit: self.backing.admits(self.why.class, is_random),
            ahead_bytes: 0,
            is_random,
            waiting: self.tracked.is_some().then_some(self.why.class),
        }
    }

    /// Names this thread's I/O origin if none is named yet.
    fn ask(&mut self, is_random: bool) {
        let io_origin = IoOrigin::current();
        if io_origin == IoOrigin::UNKNOWN && is_random {
            let is_sequential = false;
            self.asking = Some(
                IoOrigin {
                    is_sequential,
                    ..io_origin
                }
                .begin(),
            );
        }
    }

    /// Returns the approach for a miss. The first call judges the request.
    fn approach(&mut self) -> Approach {
        if let Some(approach) = self.approach {
            return approach;
        }
        let backing = self.backing;
        let mut follows = true;
        if let Some(tracked) = &self.tracked {
            if let Some(recorder) = tracked.recorder {
                backing.tracer.relieve(recorder);
            }
            let (tracker, bytes) = (tracked.tracker, tracked.object_bytes);
            let known = tracked.context.pattern;
            let judged = tracker.observe(&backing.meters, bytes, tracked.request, known);
            follows = judged.follows;
            // Regions that lie side by side are found by the directory, wherever the request is.
            self.is_random = !judged.follows && self.long.is_none();
            let long = self.long.as_ref();
            let client_reads_ahead = long.is_some_and(LongRequest::client_reads_ahead);
            match judged.fetch.filter(|_| !client_reads_ahead) {
                Some(fetch) if fetch.into == FetchInto::FastTier => self.around = Some(fetch),
                Some(fetch) if backing.fetches(fetch.into, self.why.class) => {
                    (tracked.submit)(fetch)
                }
                _ => {}
            }
        }
        self.ask(!follows);
        let approach = self.approach_for(self.is_random);
        // Chunks that are decompressed anyway cost nothing while the page cache has room.
        self.gathers = approach.route == Route::Directory || backing.cache.has_room();
        *self.approach.insert(approach)
    }

    /// Queues the surroundings of a random request that the fast tier did not have.
    fn fetch_around(&mut self) {
        if let (Some(fetch), Some(tracked)) = (self.around.take(), &self.tracked)
            && self.backing.fetches(fetch.into, self.why.class)
        {
            (tracked.submit)(fetch);
        }
    }

    /// Counts what a random read had to fetch. Defragmentation may give it smaller regions.
    fn count_fetched(&self, chunk: &ChunkRef) {
        let Some(tracked) = self.tracked.as_ref().filter(|_| self.is_random) else {
            return;
        };
        let ((offset, asked_bytes), fetch) = (self.needs, chunk.fetch());
        let meters = &self.backing.meters;
        Meters::add(&meters.random_asked_bytes, asked_bytes);
        Meters::add(&meters.random_fetched_bytes, fetch.stored_bytes);
        if let Some(recorder) = tracked.recorder.filter(|_| fetch.is_amplified()) {
            // Where nothing was changed since, a region has a part of the object in its order, or a
            // few near each other: several threads import an image. So its length before and after
            // counts too. Which region a chunk is in is looked up before it is moved.
            let start = offset.saturating_sub(chunk.bytes_before());
            let end = start.saturating_add(fetch.plain_bytes.saturating_mul(2));
            let bytes = start.saturating_sub(fetch.plain_bytes)..end;
            self.backing.tracer.fetched(recorder, bytes);
        }
    }

    /// Fills `into` from byte `offset` of `below`.
    pub fn fill<B: RecipeReader>(&mut self, below: &B, offset: u64, into: &mut [u8]) -> Result<()> {
        if self.long.is_some() && into.len() as u64 >= LONG_BYTES {
            return self.fill_long(below, offset, into);
        }
        let last = offset + (into.len() as u64).saturating_sub(1);
        self.alone = below.log2().is_some_and(|n| offset >> n == last >> n);
        let mut at = offset;
        let mut rest = into;
        while !rest.is_empty() {
            let taken = self.fill_some(below, at, rest)?;
            rest = rest.part_mut(taken..)?;
            at += taken as u64;
        }
        self.alone = false;
        Ok(())
    }

    /// Fills the start of `into`, which is not empty, from the chunk that contains `at`. Returns
    /// the number of bytes.
    fn fill_some<B: RecipeReader>(&mut self, below: &B, at: u64, into: &mut [u8]) -> Result<usize> {
        let place = place_of(below, at);
        if let (Some(place), Some(log2)) = (place, below.log2())
            && let Some(frame) = self.backing.cache.by_place(place, self.why)
        {
            self.tally.hits_by_place += 1;
            if frame.is_first_of_class() {
                offer_demanded(self.backing, &frame, None, self.why);
            }
            let (start, end) = (place.chunk << log2, (place.chunk + 1) << log2);
            return copy(&frame, at - start, end - start, into);
        }
        if at >= below.len() {
            into.fill(0);
            return Ok(into.len());
        }
        let approach = self.approach();
        let leaf = below.leaf(at, &mut self.leaves, approach)?;
        let within = at - leaf.offset;
        if leaf.fingerprint.is_hole() {
            let taken = (leaf.len - within).min(into.len() as u64) as usize;
            into.part_mut(..taken)?.fill(0);
            return Ok(taken);
        }
        let alias = |enter: &mut dyn FnMut(Option<Place>)| below.with_place(place, enter);
        let end = at.saturating_add(into.len() as u64).min(below.len());
        self.expect(&leaf, end);
        let end_of_leaf = leaf.offset.saturating_add(leaf.len);
        self.needs = (leaf.offset, end.min(end_of_leaf).saturating_sub(at));
        let mut taken = Ok(0);
        self.with_chunk(&leaf.fingerprint, &alias, &mut |bytes| {
            taken = match bytes.len() as u64 == chunk_bytes(below, &leaf) {
                true => copy(bytes, within, leaf.len, into),
                false => Err(wrong_len(&leaf, bytes.len())),
            };
        })?;
        taken
    }

    /// Notes what will be needed from this chunk on, up to byte `end`; 0 if the chunk is enough.
    /// Longer chunks than the page cache keeps are not read ahead.
    fn expect(&mut self, leaf: &Leaf, end: u64) {
        let is_kept = leaf.len <= page_cache::CHUNK_BYTES_MAX as u64;
        let is_enough = end <= leaf.offset.saturating_add(leaf.len);
        self.ahead_bytes = match is_kept && !is_enough {
            true => end.saturating_sub(leaf.offset),
            false => 0,
        };
    }

    /// Passes the verified bytes of a chunk to `use_bytes`, from the page cache if possible. Keeps
    /// them there under the alias.
    pub fn with_chunk(
        &mut self,
        fingerprint: &Fingerprint,
        alias: &Alias<'_>,
        use_bytes: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        self.load_chunk(fingerprint, alias, None, use_bytes)
    }

    /// Does the same. If the chunk's region is read, those behind it fill the rest of the request.
    fn load_chunk(
        &mut self,
        fingerprint: &Fingerprint,
        alias: &Alias<'_>,
        rest: Option<&dyn Rest>,
        use_bytes: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        let (backing, why) = (self.backing, self.why);
        for look in 0..LOOKS_MAX {
            let frame = known(backing, fingerprint, alias, why);
            if look == 0 {
                self.tally.hits_by_content += u64::from(frame.is_some());
                self.tally.misses += u64::from(frame.is_none());
            }
            if let Some(frame) = frame {
                if self.brought.contains(fingerprint) {
                    let admit = self.approach().admit;
                    let reader = backing.pool.reader();
                    reader.offer_to_tier(fingerprint, admit, &frame);
                }
                use_bytes(&frame);
                return Ok(());
            }
            let beside = self.last.as_ref().and_then(|last| last.beside(fingerprint));
            let approach = Approach {
                ahead_bytes: self.ahead_bytes,
                ..self.approach()
            };
            let kept = ChunkInserter {
                backing,
                alias,
                rest,
                why,
                gathers: self.gathers,
                alone: self.alone,
                inserted: Cell::new(false),
                regions_ahead: Cell::new(0),
                offers: approach.admit.is_some() && rest.is_none(),
                brought: RefCell::new(std::mem::take(&mut self.brought)),
            };
            let chunk = match beside {
                Some(chunk) => chunk,
                None => match backing.pool.reader().load(fingerprint, approach, &kept)? {
                    Loaded::Chunk(chunk) => {
                        self.loaded += u64::from(kept.inserted.get()) + kept.regions_ahead.get();
                        if chunk.container().is_some() {
                            self.fetch_around();
                            if kept.inserted.get() {
                                self.count_fetched(&chunk);
                            }
                        }
                        chunk
                    }
                    Loaded::Kept => {
                        self.brought = kept.brought.take();
                        continue;
                    }
                },
            };
            self.brought = kept.brought.take();
            if !kept.inserted.get() {
                kept.insert(fingerprint, &chunk);
                // It came along with another one, or was in memory: nothing has offered it.
                let reader = backing.pool.reader();
                reader.offer_to_tier(fingerprint, approach.admit, &chunk);
            }
            use_bytes(&chunk);
            if let Some(old) = self.last.replace(chunk) {
                backing.pool.reader().reuse(old);
            }
            return Ok(());
        }
        // The page cache is too small to keep the chunk: read it without the cache.
        use_bytes(&backing.pool.reader().chunk(fingerprint)?);
        Ok(())
    }

    /// Reads the chunks of `[from, to)` that are not in memory into the page cache.
    pub fn warm<B: RecipeReader>(&mut self, below: &B, from: u64, to: u64) -> Result<()> {
        let mut at = from;
        let to = to.min(below.len());
        while at < to {
            let place = place_of(below, at);
            if let (Some(place), Some(log2)) = (place, below.log2())
                && self.backing.cache.is_resident(place)
            {
                at = (place.chunk + 1) << log2;
                continue;
            }
            let approach = self.approach();
            let leaf = below.leaf(at, &mut self.leaves, approach)?;
            if !leaf.fingerprint.is_hole() {
                let alias = |enter: &mut dyn FnMut(Option<Place>)| below.with_place(place, enter);
                self.expect(&leaf, to);
                self.with_chunk(&leaf.fingerprint, &alias, &mut |_| {})?;
            }
            at = leaf.offset + leaf.len.max(1);
        }
        Ok(())
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        if let Some(tracked) = &self.tracked {
            tracked.meter.add(&self.tally);
        }
        if let Some(last) = self.last.take() {
            self.backing.pool.reader().reuse(last);
        }
    }
}

/// Returns the place under which the page cache may know the chunk at `at`.
fn place_of<B: RecipeReader>(below: &B, at: u64) -> Option<Place> {
    below.log2().map(|log2| Place {
        object: below.object(),
        chunk: at >> log2,
    })
}

/// Copies `bytes` from `within` up to byte `end` to the start of `into`. Returns the number of
/// bytes.
fn copy(bytes: &[u8], within: u64, end: u64, into: &mut [u8]) -> Result<usize> {
    let taken = end.saturating_sub(within).min(into.len() as u64) as usize;
    let from = within as usize;
    let (Some(source), Some(target)) = (bytes.get(from..from + taken), into.get_mut(..taken))
    else {
        let found = format!("it has {} bytes, expected {end}", bytes.len());
        return Err(StoreError::corruption("chunk", "", found));
    };
    target.copy_from_slice(source);
    Ok(taken)
}

/// Returns the length of a leaf's chunk, bytes: in fixed layout the last one is padded.
fn chunk_bytes<B: RecipeReader>(below: &B, leaf: &Leaf) -> u64 {
    below.log2().map_or(leaf.len, |log2| 1 << log2)
}

fn wrong_len(leaf: &Leaf, found: usize) -> StoreError {
    let found = format!("it has {found} bytes, its recipe says {}", leaf.len);
    StoreError::corruption("chunk", leaf.fingerprint, found)
}

/// Looks a chunk up by fingerprint. From then on the page cache also knows it by the alias.
fn known(
    backing: &Backing,
    fingerprint: &Fingerprint,
    alias: &Alias<'_>,
    why: Purpose,
) -> Option<Frame> {
    let mut frame: Option<Frame> = None;
    alias(&mut |place| frame = backing.cache.by_content(fingerprint, place, why));
    if let Some(frame) = frame.as_ref().filter(|frame| frame.is_first_of_class()) {
        offer_demanded(backing, frame, Some(fingerprint), why);
    }
    frame
}

/// Offers a chunk of memory to the fast tier if the class of this request is important. Computes
/// the fingerprint if the caller does not have it.
fn offer_demanded(backing: &Backing, frame: &Frame, name: Option<&Fingerprint>, why: Purpose) {
    let admit = backing.admits(why.class, false);
    if admit.is_some() {
        let reader = backing.pool.reader();
        let name = name.copied().unwrap_or_else(|| reader.fingerprint(frame));
        reader.offer_to_tier(&name, admit, frame);
    }
}

/// Inserts a loaded chunk into the page cache before other threads may read its region.
struct ChunkInserter<'a> {
    backing: &'a Backing,
    alias: &'a Alias<'a>,
    rest: Option<&'a dyn Rest>,
    why: Purpose,
    gathers: bool,
    alone: bool,
    inserted: Cell<bool>,
    regions_ahead: Cell<u64>,
    /// Chunks of regions ahead are noted in `brought`.
    offers: bool,
    /// See [`Reading::brought`].
    brought: RefCell<Vec<Fingerprint>>,
}

impl ChunkInserter<'_> {
    fn insert(&self, fingerprint: &Fingerprint, bytes: &[u8]) {
        let cache = &self.backing.cache;
        (self.alias)(&mut |place| drop(cache.insert(fingerprint, bytes, place, self.why)));
        self.inserted.set(true);
    }

    /// Keeps another chunk of a region that was decoded.
    fn insert_other(&self, fingerprint: &Fingerprint, bytes: &[u8]) {
        let cache = &self.backing.cache;
        let is_taken = self.rest.is_some_and(|rest| rest.take(fingerprint, bytes));
        if !is_taken && !cache.is_content_resident(fingerprint) {
            cache.insert(fingerprint, bytes, None, Use::Prefetch.of(self.why.class));
        }
    }
}

impl Keep for ChunkInserter<'_> {
    fn has(&self, fingerprint: &Fingerprint) -> bool {
        self.backing.cache.is_content_resident(fingerprint)
    }

    fn takes_one(&self) -> bool {
        self.alone && !self.gathers
    }

    fn keep(&self, fingerprint: &Fingerprint, chunk: &ChunkRef) -> bool {
        if chunk.len() > page_cache::CHUNK_BYTES_MAX {
            return false;
        }
        match self.rest.is_some_and(|rest| rest.take(fingerprint, chunk)) {
            true => self.inserted.set(true),
            false => self.insert(fingerprint, chunk),
        }
        if self.gathers {
            let others = chunk.others();
            others.for_each(|(fingerprint, bytes)| self.insert_other(fingerprint, bytes));
        }
        true
    }

    fn needs(&self, visit: &mut dyn FnMut(&Fingerprint)) -> bool {
        self.rest.map(|rest| rest.needs(visit)).is_some()
    }

    fn keep_ahead(&self, chunks: &mut dyn Iterator<Item = (&Fingerprint, &[u8])>) {
        self.regions_ahead.set(self.regions_ahead.get() + 1);
        chunks.for_each(|(fingerprint, bytes)| {
            self.insert_other(fingerprint, bytes);
            if self.offers {
                self.brought.borrow_mut().push(*fingerprint);
            }
        });
    }
}
