//! The cache: a clean side, an unwritten side, one budget.
//!
//! Invariant: when a call returns, memory is within the budget, but for frames that callers hold.
//! Clean chunks go before unwritten pages, which are also bounded by themselves.

use crate::clean::CleanPages;
use crate::content::Identity;
use crate::counters::Counters;
use crate::events::PageEvents;
use crate::memory::{Frame, Memory, Run};
use crate::policy::EvictionPolicy;
use crate::unwritten::UnwrittenPages;
use crate::{Options, PAGE_BYTES, Place, Use};
use std::sync::Arc;
use units::Fingerprint;

/// Pages in memory, by place and by content. All methods may be called from any thread; none does
/// I/O or waits for anything but short locks.
pub struct PageCache {
    unwritten_bytes_max: u64,
    clean: CleanPages,
    unwritten: UnwrittenPages,
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
        let unwritten = UnwrittenPages::new(options.seed, Arc::clone(&memory), events);
        Self {
            unwritten_bytes_max: options.unwritten_bytes_max.min(options.bytes_max),
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
        let identity = Identity::of(fingerprint);
        let found = self.clean.by_content(&identity, alias, for_use).map(Frame);
        self.settle();
        found
    }

    /// Keeps a chunk, whose bytes the caller has verified against `fingerprint`, and says that
    /// `alias` has this content and no other. What is longer than [`crate::CHUNK_BYTES_MAX`] is
    /// handed back and not kept.
    pub fn insert(
        &self,
        fingerprint: &Fingerprint,
        bytes: &[u8],
        alias: Option<Place>,
        for_use: Use,
    ) -> Frame {
        debug_assert!(!fingerprint.is_hole(), "holes take no memory");
        let identity = Identity::of(fingerprint);
        let run = self.obtain(bytes);
        if bytes.len() > crate::CHUNK_BYTES_MAX {
            return Frame(run);
        }
        let kept = self.clean.insert(&identity, run, alias, for_use);
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
        self.clean.contains(&Identity::of(fingerprint))
    }

    /// Whether [`unwritten`](Self::unwritten) would find it; counts as nothing.
    pub fn is_unwritten_resident(&self, object: u64, page: u64, version: u64) -> bool {
        self.unwritten.is_resident((object, page), version)
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

    fn obtain(&self, bytes: &[u8]) -> Arc<Run> {
        self.memory.obtain(bytes, &mut || self.evict())
    }

    /// Tables have grown: makes room for them.
    fn settle(&self) {
        while self.memory.is_over() && (self.memory.release_free() || self.evict()) {}
    }
}

#[cfg(test)]
mod tests;
