//! Reads the region of a chunk: through a directory, or directly where the index points (DDFS,
//! ATC'18: a random read needs no container directory). The reader calls this, and volumes with a
//! cache of their own do.
//!
//! ```text
//! cache -> fast tier, if there is one
//!      \-> index hint -> region -> verified chunk
//!      \-> directory  -> region -> verified chunk
//!                        damaged: quarantine, then every other place
//! ```
//!
//! Invariant: a hint of the index counts only after the region's bytes were verified and one of its
//! chunks has the fingerprint. Any other result of a hint is not treated as damage, and the
//! directories are asked.

use super::Reader;
use super::cache::{ChunkRef, DecodedRegion};
use super::fast::Admit;
use chunk_store::chunk_map::ChunkPlace;
use chunk_store::container::{Copies, FlightRole, PART_BYTES_MAX, ReadBy, Region, RegionPlace};
use chunk_store::{Result, StoreError};
use duet::{Events, Page, Space};
use format::container::{SECTOR_BYTES, sectors_max};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{Fingerprint, IoClass};

/// Length of the longest region that is announced: two regions of plain data.
const ANNOUNCED_SECTORS_MAX: u32 = (32 << 10) / SECTOR_BYTES;

/// The most that is read because of what probably lies behind a region.
const NEIGHBOURS_BYTES_MAX: u64 = 128 << 10;

/// Selects which lookup comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Route {
    /// Directories: a sequential reader finds the next chunks there too.
    #[default]
    Directory,
    /// The index alone, then the region itself.
    Region,
}

/// Options of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Approach {
    /// Selects which lookup comes first.
    pub route: Route,
    /// Single-flight: a thread that needs a region that is being read waits for it.
    pub shares: bool,
    /// Chunks that are read from containers are offered to the fast tier like this.
    pub admit: Option<Admit>,
    /// The caller needs so many chunk bytes soon, from the chunk on in the order in which they are
    /// stored. They are read with it: those that a directory names, or with [`Route::Region`] those
    /// that lie behind the chunk's region. 0: only the chunk.
    pub ahead_bytes: u64,
    /// The request follows no stream: recipe nodes on its way are worth their place in the fast
    /// tier.
    pub is_random: bool,
    /// Class of the client's request that waits for data, to measure what the fast tier could do
    /// for the class. `None` for what nobody waits for, and for recipe nodes.
    pub waiting: Option<IoClass>,
}

impl Approach {
    /// Returns the same approach for the recipe nodes on the way to the chunks.
    pub fn of_recipe(self) -> Self {
        Self {
            admit: Some(Admit::recipe(self.is_random)),
            ahead_bytes: 0,
            waiting: None,
            ..self
        }
    }
}

impl Default for Approach {
    fn default() -> Self {
        Self {
            route: Route::Directory,
            shares: true,
            admit: None,
            ahead_bytes: 0,
            is_random: false,
            waiting: None,
        }
    }
}

/// A caller's cache above the reader's.
pub trait Keep {
    /// Returns true if the caller's cache has the chunk now.
    fn has(&self, fingerprint: &Fingerprint) -> bool;

    /// Returns true if the cache keeps only the requested chunk.
    fn takes_one(&self) -> bool;

    /// Called with a chunk whose region was read, before other threads may read it. Returns false
    /// if the caller's cache cannot keep it.
    fn keep(&self, fingerprint: &Fingerprint, chunk: &ChunkRef) -> bool;

    /// Passes the chunks that the caller needs now to `visit`. Returns false if it does not say
    /// which; [`Approach::ahead_bytes`] counts then.
    fn needs(&self, _visit: &mut dyn FnMut(&Fingerprint)) -> bool {
        false
    }

    /// Called with the chunks of a region that was read because the caller needs them soon.
    fn keep_ahead(&self, _chunks: &mut dyn Iterator<Item = (&Fingerprint, &[u8])>) {}
}

/// No cache of the caller: the region stays in the reader's cache.
struct Nowhere;

impl Keep for Nowhere {
    fn has(&self, _: &Fingerprint) -> bool {
        false
    }

    fn takes_one(&self) -> bool {
        false
    }

    fn keep(&self, _: &Fingerprint, _: &ChunkRef) -> bool {
        false
    }
}

/// Result of a load.
pub enum Loaded {
    /// The chunk in its region.
    Chunk(ChunkRef),
    /// Nothing was read: the caller's cache has the chunk now.
    Kept,
}

/// Source of a place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PlaceSource {
    /// The index alone. A failure there does not justify a repair.
    Hint,
    /// A directory.
    Proof,
}

/// A region in memory, and the requested chunk if the region has it.
type KeptRegion = (Arc<DecodedRegion>, Option<ChunkRef>);

/// A request: the chunk, the options and the caller's cache.
#[derive(Clone, Copy)]
struct ChunkRequest<'a> {
    fingerprint: &'a Fingerprint,
    approach: Approach,
    keep: &'a dyn Keep,
}

impl Reader {
    /// Returns a recipe node, or another chunk that stays in the reader's cache.
    pub fn node(&self, fingerprint: &Fingerprint, approach: Approach) -> Result<ChunkRef> {
        let request = ChunkRequest {
            fingerprint,
            approach,
            keep: &Nowhere,
        };
        match self.run(request)? {
            Loaded::Chunk(chunk) => Ok(chunk),
            Loaded::Kept => Err(nowhere(fingerprint)),
        }
    }

    /// Returns a chunk that the caller's cache keeps. Fails with `Corruption` if no sound copy
    /// exists.
    pub fn load(
        &self,
        fingerprint: &Fingerprint,
        approach: Approach,
        keep: &dyn Keep,
    ) -> Result<Loaded> {
        self.run(ChunkRequest {
            fingerprint,
            approach,
            keep,
        })
    }

    /// Makes the device begin to read the chunk's region, for a read that follows soon. Waits for
    /// nothing. Returns false if nothing was begun: memory does not say where the region is, or it
    /// is long, and decoding it takes longer than a thread should let the next read wait.
    pub fn announce(&self, fingerprint: &Fingerprint) -> bool {
        let hint = self.chunks.hint_in_memory(fingerprint);
        let hint = hint.filter(|hint| hint.sectors <= ANNOUNCED_SECTORS_MAX);
        hint.is_some_and(|hint| {
            !self.is_in_fast_tier(fingerprint)
                && self.containers.announce(hint.region(), hint.sectors)
        })
    }

    /// Takes the memory of a chunk's region into the buffer pool, if no other thread uses it.
    pub fn reuse(&self, chunk: ChunkRef) {
        if let Some(region) = chunk.into_region() {
            self.containers.reuse(region);
        }
    }

    fn run(&self, request: ChunkRequest<'_>) -> Result<Loaded> {
        if let Some(chunk) = self.cache.get(request.fingerprint) {
            count(&self.chunk_hits);
            return Ok(Loaded::Chunk(chunk));
        }
        let Approach {
            waiting, is_random, ..
        } = request.approach;
        let measured = self.measure(request.fingerprint, waiting, is_random);
        if let Some(chunk) = self.chunk_of_tier(request.fingerprint, request.approach.admit) {
            if let Some(measured) = measured {
                measured.end(chunk.len(), true);
            }
            if !request.keep.keep(request.fingerprint, &chunk) {
                self.cache.keep(&chunk);
            }
            return Ok(Loaded::Chunk(chunk));
        }
        let loaded = self.load_from_containers(request)?;
        if let (Some(measured), Loaded::Chunk(chunk)) = (measured, &loaded) {
            measured.end(chunk.len(), false);
        }
        Ok(loaded)
    }

    fn load_from_containers(&self, request: ChunkRequest<'_>) -> Result<Loaded> {
        if request.approach.route == Route::Region
            && let Some(found) = self.by_hints(request)
        {
            return Ok(found);
        }
        self.by_directory(request)
    }

    fn by_hints(&self, request: ChunkRequest<'_>) -> Option<Loaded> {
        let mut hints = Vec::new();
        self.chunks.hints(request.fingerprint, &mut hints).ok()?;
        for hint in hints {
            match self.at_place(request, hint.region(), hint.sectors, PlaceSource::Hint) {
                Ok(Some(found)) => {
                    count(&self.direct_reads);
                    return Some(found);
                }
                Ok(None) => self.chunks.deny_hint(),
                // The hint may be wrong or the region damaged. The directories distinguish the two.
                Err(_) => {}
            }
            count(&self.hints_denied);
        }
        None
    }

    /// Garbage collection may delete the container between the lookup and the read. The chunk then
    /// has another place, so the read is repeated as long as containers were deleted during it.
    fn by_directory(&self, request: ChunkRequest<'_>) -> Result<Loaded> {
        let retired = &self.chunks.quarantine.retired;
        loop {
            let deleted = retired.times_deleted();
            match self.where_it_is_now(request) {
                Err(e) if e.is_corruption() && retired.times_deleted() != deleted => {}
                result => return result,
            }
        }
    }

    fn where_it_is_now(&self, request: ChunkRequest<'_>) -> Result<Loaded> {
        let fingerprint = request.fingerprint;
        let mut near = std::mem::take(&mut *self.near.lock());
        let place = self.chunks.locate(fingerprint, &mut near);
        *self.near.lock() = near;
        let place = place?.ok_or_else(|| nowhere(fingerprint))?;
        let first = match self.at_proven_place(request, place) {
            Err(e) if e.is_corruption() => e,
            result => return result,
        };
        self.chunks.put_in_quarantine(place.region);
        let others = self.chunks.all_places(fingerprint)?;
        let found = others
            .into_iter()
            .filter(|other| other.region != place.region)
            .find_map(|other| self.at_proven_place(request, other).ok());
        found.ok_or_else(|| {
            let retired = &self.chunks.quarantine.retired;
            match retired.holds(place.region.container) {
                true => nowhere(fingerprint),
                false => first,
            }
        })
    }

    fn at_proven_place(&self, request: ChunkRequest<'_>, place: ChunkPlace) -> Result<Loaded> {
        let sectors = format::container::sectors_max(place.stored_bytes);
        let found = self.at_place(request, place.region, sectors, PlaceSource::Proof)?;
        found.ok_or_else(|| {
            let at = format!("{} sector {}", place.region.container, place.region.sector);
            let why = format!("it does not contain chunk {}", request.fingerprint);
            StoreError::corruption("region", at, why)
        })
    }

    /// Returns `None` if the region is sound and does not have the chunk.
    fn at_place(
        &self,
        request: ChunkRequest<'_>,
        place: RegionPlace,
        sectors: u32,
        source: PlaceSource,
    ) -> Result<Option<Loaded>> {
        let fingerprint = request.fingerprint;
        let leader = loop {
            if !request.approach.shares {
                break None;
            }
            match self.single_flight.enter(place) {
                FlightRole::Lead(leader) => break Some(leader),
                FlightRole::Shared(region) => {
                    let chunk = ChunkRef::within(&region, fingerprint);
                    // A leader that needed one chunk may not have verified this one.
                    if chunk.is_some() || region.is_whole() {
                        count(&self.shared_reads);
                        return Ok(chunk.map(Loaded::Chunk));
                    }
                }
            }
        };
        // An earlier leader may have cached it between the caller's lookup and this point.
        if let Some(chunk) = self.cache.get(fingerprint) {
            return Ok(Some(Loaded::Chunk(chunk)));
        }
        if request.keep.has(fingerprint) {
            return Ok(Some(Loaded::Kept));
        }
        count(&self.region_reads);
        let only = request.keep.takes_one().then_some(fingerprint);
        let reported = self.reported.get();
        let mut by = ReadBy {
            // Memory of the system is a free second tier (docs/evaluation/access-patterns.md).
            copies: Copies::InSystem,
            asks: reported.is_some(),
            is_from_device: false,
        };
        let stored_bytes = u64::from(sectors) * u64::from(SECTOR_BYTES);
        let kept = |region| {
            self.kept(
                request,
                Arc::new(DecodedRegion::new(region, place, stored_bytes)),
            )
        };
        let containers = &self.containers;
        let (region, chunk) = match source {
            PlaceSource::Hint => {
                match self.with_neighbours(request, (place, sectors), &mut by, &kept) {
                    Some(kept) => kept,
                    None => kept(containers.region_by(place, sectors, &mut by, only)?),
                }
            }
            PlaceSource::Proof => match self.with_those_behind(request, place, &mut by, &kept) {
                Some(kept) => kept,
                None => kept(containers.region_restored_by(place, sectors, &mut by, only)?),
            },
        };
        // All stored bytes were verified, and the region has the expected chunk. Bytes from the
        // system's page cache prove nothing about the device.
        if let Some(duet) = reported.filter(|_| by.is_from_device && chunk.is_some()) {
            duet.record(&page_of(place), Events::ADDED);
        }
        if let Some(leader) = leader {
            leader.complete(&region);
        }
        Ok(chunk.map(Loaded::Chunk))
    }
}

impl Reader {
    /// Offers the chunks of a region to the caller's cache, or to this one.
    fn kept(&self, request: ChunkRequest<'_>, region: Arc<DecodedRegion>) -> KeptRegion {
        let fingerprint = request.fingerprint;
        let chunk = ChunkRef::within(&region, fingerprint);
        if let Some(chunk) = &chunk {
            // Decoding a long region again for its next chunk would cost more than its memory.
            let is_long = region.raw_bytes() > PART_BYTES_MAX;
            let is_kept = request.keep.keep(fingerprint, chunk);
            self.offer_region_to_tier(fingerprint, request.approach.admit, chunk);
            if let Some(place) = region.place().filter(|_| is_kept) {
                self.recent.add(place);
            }
            if !is_kept || is_long {
                let evicted = self.cache.insert(Arc::clone(&region));
                evicted
                    .into_iter()
                    .for_each(|region| self.containers.reuse(region));
            }
        }
        (region, chunk)
    }

    /// Reads a region that the index named, and as much behind it as the caller needs, with one
    /// read: what was written together lies together, and each further region would cost a look-up
    /// and a read. Returns `None` if the region has all, or must be read alone.
    fn with_neighbours(
        &self,
        request: ChunkRequest<'_>,
        (place, sectors): (RegionPlace, u32),
        by: &mut ReadBy,
        kept: &dyn Fn(Region) -> KeptRegion,
    ) -> Option<KeptRegion> {
        let ahead_bytes = request.approach.ahead_bytes.min(NEIGHBOURS_BYTES_MAX);
        let wanted = sectors_max(u32::try_from(ahead_bytes).ok()?);
        if wanted <= sectors || request.keep.takes_one() {
            return None;
        }
        let from = (place, ahead_bytes);
        self.visit_side_by_side(from, wanted, by, kept, &mut |_, chunks| {
            request.keep.keep_ahead(chunks);
        })
    }

    /// Reads a region, and those behind it that the caller needs soon, with one read. They are kept
    /// in this order. Returns `None` if there are none, or if the region must be read alone.
    fn with_those_behind(
        &self,
        request: ChunkRequest<'_>,
        place: RegionPlace,
        by: &mut ReadBy,
        kept: &dyn Fn(Region) -> KeptRegion,
    ) -> Option<KeptRegion> {
        let ahead_bytes = request.approach.ahead_bytes;
        if ahead_bytes == 0 || request.keep.takes_one() {
            return None;
        }
        let directory = self.chunks.directory_in_memory(place.container)?;
        let mut needed = Vec::new();
        let run = match request.keep.needs(&mut |name| needed.push(*name)) {
            true => directory.needed_run(place.sector, &needed),
            false => directory.run(place.sector, ahead_bytes),
        };
        let (last, last_bytes) = run.last().filter(|_| run.len() > 1)?;
        let sectors = last.sector.saturating_sub(place.sector) + sectors_max(*last_bytes);
        self.visit_run(&run, sectors, by, kept, &mut |_, chunks| {
            request.keep.keep_ahead(chunks);
        })
    }
}

/// Returns the page that represents a region in maintenance events.
pub(super) fn page_of(place: RegionPlace) -> Page {
    Page {
        space: Space::Containers,
        object: place.container.0,
        generation: 0,
        index: place.sector.into(),
    }
}

fn nowhere(fingerprint: &Fingerprint) -> StoreError {
    let found = "in no readable container";
    StoreError::corruption("chunk", fingerprint, found)
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
