//! Cache of decoded regions, found by the fingerprints of their chunks: a duplicate chunk is a hit.
//! The reader calls this.
//!
//! Regions that only maintenance uses may fill the memory that clients do not need, and always a
//! quarter of the budget. So maintenance does not evict what clients have used recently.
//!
//! Invariant: only verified regions are inserted. The regions, and what garbage collection borrows,
//! stay within the budget (one region more while it is in use). Eviction is CLOCK over regions,
//! with a separate ring for maintenance.

use chunk_store::chunk_map::{FingerprintMap, PASSING_SHARE};
use chunk_store::container::{Region, RegionPlace};
use fragpicker::Fetch;
use media::IoOrigin;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, VecDeque};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use units::{ContainerId, Fingerprint, Origin};

const SHARDS: usize = 32;
/// Memory of a cached chunk besides its bytes: table slots and its place in the region, bytes.
const CHUNK_OVERHEAD: usize = 160;

/// A verified region, inside or outside of the cache.
pub(super) struct DecodedRegion {
    region: Region,
    /// `None` for a chunk that did not come from a container.
    place: Option<RegionPlace>,
    /// Bytes that were read for it, at most.
    stored_bytes: u64,
    /// Origin of the read that brought it into memory.
    read_for: Origin,
    used: AtomicBool,
}

impl DecodedRegion {
    /// Wraps a region of a container, for which `stored_bytes` bytes were read.
    pub fn new(region: Region, place: RegionPlace, stored_bytes: u64) -> Self {
        Self {
            place: Some(place),
            stored_bytes,
            ..Self::alone(region)
        }
    }

    /// Wraps chunks that did not come from a container.
    pub fn alone(region: Region) -> Self {
        Self {
            region,
            place: None,
            stored_bytes: 0,
            read_for: IoOrigin::current().origin,
            used: AtomicBool::new(false),
        }
    }

    fn bytes(&self) -> usize {
        self.region.raw.capacity() + self.region.chunks.len() * CHUNK_OVERHEAD
    }

    /// Returns false if some of its chunks were not verified and are not listed.
    pub fn is_whole(&self) -> bool {
        self.region.is_whole
    }

    /// Returns its place; `None` if it did not come from a container.
    pub fn place(&self) -> Option<RegionPlace> {
        self.place
    }

    /// Returns the length of all chunks, bytes.
    pub fn raw_bytes(&self) -> usize {
        self.region.raw.len()
    }
}

/// A chunk's verified bytes. It keeps its region in memory.
#[derive(Clone)]
pub struct ChunkRef {
    region: Arc<DecodedRegion>,
    number: u32,
}

impl ChunkRef {
    /// Returns the chunk with this fingerprint if the region has it.
    pub(super) fn within(region: &Arc<DecodedRegion>, fingerprint: &Fingerprint) -> Option<Self> {
        let is_it = |(_, (f, _, _)): &(u32, &(Fingerprint, u32, u32))| f == fingerprint;
        let (number, _) = (0u32..).zip(&region.region.chunks).find(is_it)?;
        Some(Self {
            region: Arc::clone(region),
            number,
        })
    }

    /// Returns the chunk with this fingerprint if the same region has it. Tries the next chunk
    /// first.
    pub fn beside(&self, fingerprint: &Fingerprint) -> Option<Self> {
        let number = self.number + 1;
        match self.region.region.chunks.get(number as usize) {
            Some((f, _, _)) if f == fingerprint => Some(Self {
                region: Arc::clone(&self.region),
                number,
            }),
            _ => Self::within(&self.region, fingerprint),
        }
    }

    /// Returns the origin of the read that brought the chunk's region into memory.
    pub fn read_for(&self) -> Origin {
        self.region.read_for
    }

    /// Returns the container of the region; `None` if the chunk came from the fast tier.
    pub fn container(&self) -> Option<ContainerId> {
        self.region.place.map(|place| place.container)
    }

    /// Returns what reading the chunk from its container has cost.
    pub fn fetch(&self) -> Fetch {
        Fetch {
            stored_bytes: self.region.stored_bytes,
            plain_bytes: self.region.raw_bytes() as u64,
            chunk_bytes: self.len() as u64,
        }
    }

    /// Returns the length of the chunks before it in its region, bytes.
    pub fn bytes_before(&self) -> u64 {
        let chunk = self.region.region.chunks.get(self.number as usize);
        chunk.map_or(0, |(_, start, _)| u64::from(*start))
    }

    /// Returns the memory of the region, bytes.
    pub(super) fn region_bytes(&self) -> u64 {
        self.region.bytes() as u64
    }

    /// Returns true if both chunks share one region in memory.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.region, &other.region)
    }

    /// Returns all other chunks of the region.
    pub fn others(&self) -> impl Iterator<Item = (&Fingerprint, &[u8])> {
        let chunks = self.region.region.chunks.iter().enumerate();
        let others = chunks.filter(|(number, _)| *number != self.number as usize);
        others.map(|(number, (f, _, _))| (f, self.region.region.chunk(number)))
    }

    /// Returns the region's memory if no other thread uses it.
    pub(super) fn into_region(self) -> Option<Region> {
        Arc::into_inner(self.region).map(|decoded| decoded.region)
    }
}

impl Deref for ChunkRef {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.region.region.chunk(self.number as usize)
    }
}

impl AsRef<[u8]> for ChunkRef {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

#[derive(Default)]
struct Ring {
    regions: VecDeque<Arc<DecodedRegion>>,
    bytes: usize,
}

impl Ring {
    fn push(&mut self, region: Arc<DecodedRegion>) {
        self.bytes += region.bytes();
        self.regions.push_back(region);
    }

    fn pop(&mut self) -> Option<Arc<DecodedRegion>> {
        let oldest = self.regions.pop_front()?;
        self.bytes -= oldest.bytes();
        Some(oldest)
    }
}

#[derive(Default)]
struct Rings {
    /// Regions that were read for users, or used by them later.
    stays: Ring,
    /// Regions that maintenance has read.
    passes: Ring,
    /// All of them.
    by_place: HashMap<RegionPlace, Arc<DecodedRegion>>,
}

impl Rings {
    fn forget(&mut self, victim: &Arc<DecodedRegion>) {
        let Some(place) = victim.place else {
            return;
        };
        let found = self.by_place.get(&place);
        if found.is_some_and(|found| Arc::ptr_eq(found, victim)) {
            self.by_place.remove(&place);
        }
    }

    fn bytes(&self) -> usize {
        self.stays.bytes + self.passes.bytes
    }

    /// Evicts one region. Returns `None` if there is none, and `Some(None)` if the candidate was
    /// used and stays.
    fn evict(&mut self, passing_max: usize) -> Option<Option<Arc<DecodedRegion>>> {
        let is_passing = self.passes.bytes > passing_max || self.stays.regions.is_empty();
        let (oldest, was_used) = match is_passing {
            true => {
                let oldest = self.passes.pop()?;
                let was_used = oldest.used.load(Ordering::Relaxed);
                (oldest, was_used)
            }
            false => {
                let oldest = self.stays.pop()?;
                let was_used = oldest.used.swap(false, Ordering::Relaxed);
                (oldest, was_used)
            }
        };
        if was_used {
            self.stays.push(oldest);
            return Some(None);
        }
        Some(Some(oldest))
    }
}

/// The cache of decoded regions.
pub(super) struct ReadCache {
    shards: Vec<Mutex<FingerprintMap<ChunkRef>>>,
    rings: Mutex<Rings>,
    bytes_max: usize,
    /// Part of `bytes_max` that is lent.
    released_bytes: AtomicUsize,
}

impl ReadCache {
    pub fn new(bytes_max: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            rings: Mutex::default(),
            bytes_max,
            released_bytes: AtomicUsize::new(0),
        }
    }

    /// Returns the budget without what is lent, bytes.
    pub fn bytes_max(&self) -> usize {
        let released = self.released_bytes.load(Ordering::Relaxed);
        self.bytes_max.saturating_sub(released)
    }

    /// Lends half of the budget and evicts what no longer fits. Returns the bytes lent: 0 while
    /// they are lent already.
    pub fn release_half(&self) -> usize {
        let half = self.bytes_max / 2;
        let is_released =
            self.released_bytes
                .compare_exchange(0, half, Ordering::Relaxed, Ordering::Relaxed);
        if is_released.is_err() {
            return 0;
        }
        let victims = self.victims(&mut self.rings.lock(), 0, self.bytes_max / PASSING_SHARE);
        drop(self.forgotten(victims));
        half
    }

    /// Takes back what is lent.
    pub fn take_back(&self) {
        self.released_bytes.store(0, Ordering::Relaxed);
    }

    fn shard(&self, fingerprint: &Fingerprint) -> MutexGuard<'_, FingerprintMap<ChunkRef>> {
        // The map hashes by the first bytes. The last one is independent of them.
        let [.., last] = fingerprint.0;
        self.shards[usize::from(last) % SHARDS].lock()
    }

    pub fn get(&self, fingerprint: &Fingerprint) -> Option<ChunkRef> {
        let chunk = self.shard(fingerprint).get(fingerprint).cloned()?;
        if !IoOrigin::current().origin.is_maintenance() {
            chunk.region.used.store(true, Ordering::Relaxed);
        }
        Some(chunk)
    }

    /// Visits the chunks of a region.
    pub fn visit_region(&self, place: RegionPlace, visit: &mut dyn FnMut(&Fingerprint)) {
        let found = self.rings.lock().by_place.get(&place).cloned();
        let chunks = found.iter().flat_map(|found| &found.region.chunks);
        chunks.for_each(|(fingerprint, _, _)| visit(fingerprint));
    }

    /// Inserts the region of a chunk again.
    pub(super) fn keep(&self, chunk: &ChunkRef) {
        drop(self.insert(Arc::clone(&chunk.region)));
    }

    /// Inserts a region. Returns the evicted regions that no thread uses.
    pub fn insert(&self, cached: Arc<DecodedRegion>) -> Vec<Region> {
        for (number, (fingerprint, _, _)) in (0u32..).zip(&cached.region.chunks) {
            let chunk = ChunkRef {
                region: Arc::clone(&cached),
                number,
            };
            self.shard(fingerprint).insert(*fingerprint, chunk);
        }
        let mut rings = self.rings.lock();
        // Evict before inserting: if all other regions are in use, the new one would be evicted
        // first.
        let bytes = cached.bytes();
        let is_passing = IoOrigin::current().origin.is_maintenance();
        let passing_max = match is_passing {
            true => (self.bytes_max / PASSING_SHARE).saturating_sub(bytes),
            false => self.bytes_max / PASSING_SHARE,
        };
        let victims = self.victims(&mut rings, bytes, passing_max);
        if let Some(place) = cached.place {
            rings.by_place.insert(place, Arc::clone(&cached));
        }
        match is_passing {
            true => rings.passes.push(cached),
            false => rings.stays.push(cached),
        }
        drop(rings);
        self.forgotten(victims)
    }

    /// Evicts regions until `bytes` more fit.
    fn victims(
        &self,
        rings: &mut Rings,
        bytes: usize,
        passing_max: usize,
    ) -> Vec<Arc<DecodedRegion>> {
        let mut victims = Vec::new();
        while rings.bytes() + bytes > self.bytes_max()
            && let Some(victim) = rings.evict(passing_max)
        {
            victims.extend(victim);
        }
        for victim in &victims {
            rings.forget(victim);
        }
        victims
    }

    /// Removes evicted regions from the table. Returns those that no thread uses.
    fn forgotten(&self, victims: Vec<Arc<DecodedRegion>>) -> Vec<Region> {
        let evicted = victims.into_iter().filter_map(|victim| {
            self.forget(&victim);
            Arc::into_inner(victim).map(|cached| cached.region)
        });
        evicted.collect()
    }

    /// Returns the memory of all regions and what is lent, bytes.
    pub fn memory_bytes(&self) -> usize {
        self.rings.lock().bytes() + self.released_bytes.load(Ordering::Relaxed)
    }

    fn forget(&self, victim: &Arc<DecodedRegion>) {
        for (fingerprint, _, _) in &victim.region.chunks {
            let mut shard = self.shard(fingerprint);
            if shard
                .get(fingerprint)
                .is_some_and(|c| Arc::ptr_eq(&c.region, victim))
            {
                shard.remove(fingerprint);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(n: u8) -> (Fingerprint, Arc<DecodedRegion>) {
        let fingerprint = Fingerprint([n; 32]);
        let region = Region {
            raw: vec![n; 1000],
            chunks: vec![(fingerprint, 0, 1000)],
            is_whole: true,
        };
        let place = RegionPlace {
            container: units::ContainerId(9),
            sector: n.into(),
        };
        (
            fingerprint,
            Arc::new(DecodedRegion::new(region, place, 512)),
        )
    }

    /// If all other regions are in use, the new one must not be evicted first: a reader needs it.
    #[test]
    fn a_new_region_stays_and_the_oldest_goes() {
        let cache = ReadCache::new(3 * (1000 + CHUNK_OVERHEAD));
        for n in 1..=9 {
            let (fingerprint, region) = region(n);
            cache.insert(region);
            for kept in n.saturating_sub(2).max(1)..=n {
                let kept = cache.get(&Fingerprint([kept; 32]));
                assert!(kept.is_some(), "{fingerprint}");
            }
            let dropped = n.checked_sub(3).map(|dropped| Fingerprint([dropped; 32]));
            assert!(dropped.is_none_or(|dropped| cache.get(&dropped).is_none()));
            for place in 1..=n {
                assert_eq!(
                    at_place(&cache, place),
                    cache.get(&Fingerprint([place; 32])).is_some()
                );
            }
        }
        assert_eq!(cache.memory_bytes(), 3 * (1000 + CHUNK_OVERHEAD));
    }

    /// Returns true if the region is found by its place.
    fn at_place(cache: &ReadCache, n: u8) -> bool {
        let (mut found, (name, region)) = (Vec::new(), region(n));
        cache.visit_region(region.place.expect("a place"), &mut |name| {
            found.push(*name)
        });
        assert!(found.is_empty() || found == [name]);
        !found.is_empty()
    }

    /// Returns true if the region is still cached, for the current I/O origin.
    fn has(cache: &ReadCache, n: u8) -> bool {
        cache.get(&Fingerprint([n; 32])).is_some()
    }

    #[test]
    fn what_clients_use_stays_while_maintenance_goes_through_everything() {
        const FIRST_OF_TASKS: u8 = 100;
        let cache = ReadCache::new(8 * (1000 + CHUNK_OVERHEAD));
        {
            let _task = IoOrigin::of(Origin::Scrub).begin();
            (FIRST_OF_TASKS..FIRST_OF_TASKS + 8).for_each(|n| drop(cache.insert(region(n).1)));
            assert!(has(&cache, FIRST_OF_TASKS), "nobody else needs the memory");
        }
        (1..=6).for_each(|n| drop(cache.insert(region(n).1)));
        for task in [Origin::Collect, Origin::Replication] {
            let _task = IoOrigin::of(task).begin();
            for n in FIRST_OF_TASKS + 8..=u8::MAX {
                cache.insert(region(n).1);
                assert!(has(&cache, n), "it was read for somebody");
                let before = (n - 1).max(FIRST_OF_TASKS + 8);
                assert!(has(&cache, before), "another task may need that one");
            }
        }
        assert!(
            (1..=6).all(|n| has(&cache, n)),
            "clients would read it again"
        );
        assert!(cache.memory_bytes() <= 8 * (1000 + CHUNK_OVERHEAD));
        // A region that a task has read and a client uses counts as the client's.
        assert!(has(&cache, u8::MAX));
        let _task = IoOrigin::of(Origin::Collect).begin();
        (FIRST_OF_TASKS..FIRST_OF_TASKS + 20).for_each(|n| drop(cache.insert(region(n).1)));
        assert!(has(&cache, u8::MAX) && has(&cache, FIRST_OF_TASKS + 19));
    }

    /// Garbage collection borrows memory: regions and the loan stay within the budget together.
    #[test]
    fn half_of_the_budget_can_be_released_once() {
        let one = 1000 + CHUNK_OVERHEAD;
        let cache = ReadCache::new(8 * one);
        (1..=8).for_each(|n| drop(cache.insert(region(n).1)));
        assert_eq!(cache.release_half(), 4 * one);
        assert_eq!(cache.release_half(), 0, "one borrower");
        assert_eq!(
            (cache.memory_bytes(), cache.bytes_max()),
            (8 * one, 4 * one)
        );
        (9..=20).for_each(|n| drop(cache.insert(region(n).1)));
        assert_eq!(cache.memory_bytes(), 8 * one);
        assert!(has(&cache, 20) && !has(&cache, 1));
        cache.take_back();
        (21..=24).for_each(|n| drop(cache.insert(region(n).1)));
        assert!(has(&cache, 17) && cache.memory_bytes() == 8 * one);
    }

    #[test]
    fn a_region_comes_in_again() {
        let cache = ReadCache::new(1000 + CHUNK_OVERHEAD);
        let (fingerprint, first) = region(1);
        cache.insert(first);
        let chunk = cache.get(&fingerprint).expect("there");
        cache.insert(region(2).1);
        assert!(cache.get(&fingerprint).is_none());
        cache.keep(&chunk);
        let again = cache.get(&fingerprint).expect("there again");
        assert!(again.is_beside(&chunk) && again[..] == chunk[..]);
    }
}
