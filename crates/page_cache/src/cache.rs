//! The cache: a clean side, an unwritten side, one budget.
//!
//! Invariant: when a call returns, memory is within the budget, but for frames that callers hold.
//! Clean chunks go before unwritten pages, which are also bounded by themselves.

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

/// Pages in memory, by place and by content. All methods may be called from any thread; none does
/// I/O or waits for anything but short locks.
pub struct PageCache {
    unwritten_bytes_max: u64,
    pub(crate) clean: CleanPages,
    pub(crate) unwritten: UnwrittenPages,
    memory: Arc<Memory>,
}

impl PageCache {
    /// Empty. All of a cache's content must be of one dedup domain: who measures time can tell
    /// whether anybody else has the same bytes.
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

    /// The chunk of a place. `None`: ask for its fingerprint, then [`by_content`](Self::by_content).
    pub fn by_place(&self, place: Place, for_use: Use) -> Option<Frame> {
        self.clean.by_place(place, for_use).map(Frame)
    }

    /// The chunk of a fingerprint. From now on `alias`, when one is given, has this content and no
    /// other; whether it is here or not.
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

    /// Keeps a chunk, whose bytes the caller has verified against `fingerprint`, and says that
    /// `alias` has this content and no other. What is longer than [`CHUNK_BYTES_MAX`], or finds no
    /// room as callers hold all frames, is handed back and not kept.
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

    /// A place has other content now, or none.
    pub fn forget_place(&self, place: Place) {
        self.clean.forget_place(place);
    }

    /// An object is closed or gone: all its places and unwritten pages. Looks at every place in
    /// memory, a few nanoseconds each.
    pub fn forget_object(&self, object: u64) {
        self.clean.forget_object(object);
        self.unwritten.forget_object(object);
    }

    /// Keeps bytes that are in the journal only. Versions of one page go up: a put of the version
    /// that is here, or of an older one, changes nothing.
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

    /// An unwritten page, in exactly this version. `None`: the journal has it.
    pub fn unwritten(&self, object: u64, page: u64, version: u64) -> Option<Frame> {
        self.unwritten.get((object, page), version).map(Frame)
    }

    /// The page's bytes of this version are in containers now: the page goes, unless it is newer.
    pub fn destaged(&self, object: u64, page: u64, version: u64) {
        self.unwritten.destaged((object, page), version);
    }

    /// Whether [`by_place`](Self::by_place) would find it; counts as nothing.
    pub fn is_resident(&self, place: Place) -> bool {
        self.clean.is_resident(place)
    }

    /// Whether [`by_content`](Self::by_content) would find it; counts as nothing.
    pub fn is_content_resident(&self, fingerprint: &Fingerprint) -> bool {
        self.clean.contains(fingerprint)
    }

    /// Whether [`unwritten`](Self::unwritten) would find it; counts as nothing.
    pub fn is_unwritten_resident(&self, object: u64, page: u64, version: u64) -> bool {
        self.unwritten.is_resident((object, page), version)
    }

    /// True while what is kept pushes nothing out: an eighth of the memory was never needed.
    pub fn has_room(&self) -> bool {
        self.memory.has_room()
    }

    /// What was done and what is held. Not one instant: shards are asked one after another.
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

    /// A copy of `bytes` within the budget; `None` when callers hold all there is.
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

    /// Moves what lies in a window of that size to free memory elsewhere.
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

    /// Tables have grown: an extent makes room for them.
    fn settle(&self) {
        let mut failed = 0;
        while self.memory.is_over() {
            while !self.memory.can_spare_an_extent() && self.evict() {}
            let Some((extent, owners)) = self.memory.close_extent(failed) else {
                // Callers hold some of each; the next call tries again.
                return;
            };
            owners.into_iter().for_each(|owner| self.vacate(owner));
            failed += usize::from(!self.memory.remove_extent(extent));
        }
    }
}

#[cfg(test)]
mod tests;
