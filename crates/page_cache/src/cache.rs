//! Implements the cache: a clean side, a dirty side, one budget. The store calls this.
//!
//! Invariant: when a call returns, memory is within the budget, except for frames that callers
//! hold. Clean chunks are evicted before dirty pages, which also have their own limit.

use crate::arena::Owner;
use crate::clean::CleanPages;
use crate::counters::Counters;
use crate::events::PageEvents;
use crate::extent::Run;
use crate::memory::{Frame, Lacking, Memory};
use crate::policy::EvictionPolicy;
use crate::unwritten::UnwrittenPages;
use crate::{CHUNK_BYTES_MAX, Options, PAGE_BYTES, Place, Use};
use std::sync::Arc;
use units::Fingerprint;

/// Pages in memory, by place and by content. Any thread may call all methods. None does I/O or
/// waits for anything but short locks.
pub struct PageCache {
    unwritten_bytes_max: u64,
    pub(crate) clean: CleanPages,
    pub(crate) unwritten: UnwrittenPages,
    memory: Arc<Memory>,
}

impl PageCache {
    /// Makes an empty cache.
    ///
    /// All of its content must be of one deduplication domain: timing reveals whether somebody else
    /// has the same bytes.
    pub fn new(
        options: Options,
        policy: Box<dyn EvictionPolicy>,
        events: Arc<dyn PageEvents>,
    ) -> Self {
        let memory = Memory::new(options.bytes_max);
        let domain = (options.seed, options.bytes_max);
        let clean = CleanPages::new(domain, policy, Arc::clone(&memory), Arc::clone(&events));
        let unwritten_bytes_max = options.unwritten_bytes_max.min(options.bytes_max);
        let domain = (options.seed, unwritten_bytes_max);
        let unwritten = UnwrittenPages::new(domain, Arc::clone(&memory), events);
        Self {
            unwritten_bytes_max,
            clean,
            unwritten,
            memory,
        }
    }

    /// Returns the chunk of a place. After `None`, look up its fingerprint, then call
    /// [`by_content`](Self::by_content).
    pub fn by_place(&self, place: Place, for_use: Use) -> Option<Frame> {
        self.clean.by_place(place, for_use).map(Frame)
    }

    /// Returns the chunk of a fingerprint. Also records that `alias`, if given, has exactly this
    /// content, whether the chunk is in memory or not.
    pub fn by_content(
        &self,
        fingerprint: &Fingerprint,
        alias: Option<Place>,
        for_use: Use,
    ) -> Option<Frame> {
        let found = self
            .clean
            .by_content(fingerprint, alias, for_use)
            .map(Frame);
        self.settle();
        found
    }

    /// Keeps a chunk whose bytes the caller has verified against `fingerprint`, and records that
    /// `alias` has exactly this content.
    ///
    /// A chunk longer than [`CHUNK_BYTES_MAX`] is returned and not kept. So is one that finds no
    /// space because callers hold all frames.
    pub fn insert(
        &self,
        fingerprint: &Fingerprint,
        bytes: &[u8],
        alias: Option<Place>,
        for_use: Use,
    ) -> Frame {
        debug_assert!(!fingerprint.is_hole(), "holes take no memory");
        let kept = match self.obtain(bytes) {
            Some(run) => self.clean.insert(fingerprint, run, alias, for_use),
            None => {
                alias.inspect(|place| self.clean.forget_place(*place));
                Arc::new(Run::alone(bytes))
            }
        };
        self.settle();
        Frame(kept)
    }

    /// Forgets a place that has other content now, or none.
    pub fn forget_place(&self, place: Place) {
        self.clean.forget_place(place);
    }

    /// Forgets all places and dirty pages of a closed or deleted object. Visits every place in
    /// memory, at a few nanoseconds each.
    pub fn forget_object(&self, object: u64) {
        self.clean.forget_object(object);
        self.unwritten.forget_object(object);
    }

    /// Keeps a dirty page: bytes that are only in the journal. Versions of one page ascend. A put
    /// of the cached version, or of an older one, changes nothing.
    pub fn put_unwritten(&self, object: u64, page: u64, version: u64, bytes: &[u8; PAGE_BYTES]) {
        let place = (object, page);
        if self.unwritten.overwrite(place, version, bytes) {
            return;
        }
        let run = self.obtain(bytes);
        self.unwritten.put(place, version, run);
        while self.unwritten.bytes() > self.unwritten_bytes_max && self.unwritten.evict() {}
        self.settle();
    }

    /// Returns a dirty page in exactly this version. `None`: the journal has it.
    pub fn unwritten(&self, object: u64, page: u64, version: u64) -> Option<Frame> {
        self.unwritten.get((object, page), version).map(Frame)
    }

    /// Notes that the page's bytes of this version are in containers now. The page is dropped
    /// unless it is newer.
    pub fn destaged(&self, object: u64, page: u64, version: u64) {
        self.unwritten.destaged((object, page), version);
    }

    /// Returns true if [`by_place`](Self::by_place) would find it. Does not count as a use.
    pub fn is_resident(&self, place: Place) -> bool {
        self.clean.is_resident(place)
    }

    /// Returns true if [`by_content`](Self::by_content) would find it. Does not count as a use.
    pub fn is_content_resident(&self, fingerprint: &Fingerprint) -> bool {
        self.clean.contains(fingerprint)
    }

    /// Returns true if [`unwritten`](Self::unwritten) would find it. Does not count as a use.
    pub fn is_unwritten_resident(&self, object: u64, page: u64, version: u64) -> bool {
        self.unwritten.is_resident((object, page), version)
    }

    /// Returns true while an insert evicts nothing: an eighth of the memory was never needed.
    pub fn has_room(&self) -> bool {
        self.memory.has_room()
    }

    /// Returns counts and sizes. They are not of one instant: shards are read one after another.
    pub fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        self.clean.count(&mut counters);
        self.unwritten.count(&mut counters);
        counters.bytes_resident = self.memory.used();
        counters
    }

    fn evict(&self) -> bool {
        self.clean.evict() || self.unwritten.evict()
    }

    /// Copies `bytes` within the budget; `None` when callers hold all memory.
    fn obtain(&self, bytes: &[u8]) -> Option<Arc<Run>> {
        if bytes.len() > CHUNK_BYTES_MAX {
            return None;
        }
        loop {
            let cleared = match self.memory.obtain(bytes) {
                Ok(run) => return Some(run),
                Err(Lacking::Window) => self.clear_window(bytes),
                Err(Lacking::Room) => None,
            };
            if cleared.is_some() || !self.evict() {
                return cleared.or_else(|| self.clear_window(bytes));
            }
        }
    }

    /// Moves the contents of a window of that size to free memory elsewhere.
    fn clear_window(&self, bytes: &[u8]) -> Option<Arc<Run>> {
        let window = self.memory.close_window(bytes.len())?;
        window.owners.iter().for_each(|owner| self.vacate(*owner));
        self.memory.open_window(&window, bytes)
    }

    fn vacate(&self, owner: Owner) {
        if UnwrittenPages::owns(owner) {
            self.unwritten.vacate(owner);
        } else {
            self.clean.vacate(owner);
        }
    }

    /// Removes an extent to make space for tables that have grown.
    fn settle(&self) {
        let mut failed = 0;
        while self.memory.is_over() {
            while !self.memory.can_spare_an_extent() && self.evict() {}
            let Some((extent, owners)) = self.memory.close_extent(failed) else {
                // Callers hold some of each extent; the next call tries again.
                return;
            };
            owners.into_iter().for_each(|owner| self.vacate(owner));
            failed += usize::from(!self.memory.remove_extent(extent));
        }
    }
}

#[cfg(test)]
mod tests;
