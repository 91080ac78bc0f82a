//! Implements the cache: a clean side, a dirty side, one budget. The store calls this.
//!
//! Invariant: when a call returns, memory is within the budget, except for frames that callers
//! hold. The least important class evicts, and nothing leaves for a less important one. Of equally
//! important classes clean chunks are evicted before dirty pages, which also have their own limit.

mod space;

use crate::clean::CleanPages;
use crate::counters::{ClassCounters, Counters};
use crate::dirty::DirtyPages;
use crate::events::PageEvents;
use crate::extent::Run;
use crate::memory::{Frame, Memory};
use crate::policy::EvictionPolicy;
use crate::{CHUNK_BYTES_MAX, PAGE_BYTES, PageCacheOptions, Place, Purpose};
use classes::{CLASSES, ClassOccupancy, ClassSet, ClassSettings, Need, known};
use std::sync::Arc;
use units::{Fingerprint, IoClass};

/// Pages in memory, by place and by content. Any thread may call all methods. None does I/O or
/// waits for anything but short locks.
pub struct PageCache {
    bytes_max: u64,
    dirty_bytes_max: u64,
    pub(crate) clean: CleanPages,
    pub(crate) dirty: DirtyPages,
    classes: Arc<ClassOccupancy>,
    memory: Arc<Memory>,
}

impl PageCache {
    /// Makes an empty cache.
    ///
    /// All of its content must be of one deduplication domain: timing reveals whether somebody else
    /// has the same bytes.
    pub fn new(
        options: PageCacheOptions,
        policy: Box<dyn EvictionPolicy>,
        events: Arc<dyn PageEvents>,
    ) -> Self {
        let memory = Memory::new(options.bytes_max);
        let classes = Arc::new(ClassOccupancy::new(CHUNK_BYTES_MAX as u64));
        memory.adjust(0, size_of::<ClassOccupancy>());
        let domain = (options.seed, options.bytes_max);
        let (shared, of_all) = (Arc::clone(&memory), Arc::clone(&classes));
        let clean = CleanPages::new(domain, policy, of_all, shared, Arc::clone(&events));
        let dirty_bytes_max = options.dirty_bytes_max.min(options.bytes_max);
        let domain = (options.seed, dirty_bytes_max);
        let (shared, of_all) = (Arc::clone(&memory), Arc::clone(&classes));
        let dirty = DirtyPages::new(domain, of_all, shared, events);
        Self {
            bytes_max: options.bytes_max,
            dirty_bytes_max,
            clean,
            dirty,
            classes,
            memory,
        }
    }

    /// Changes how classes are treated, at any moment. Before the first call all are equal.
    ///
    /// A class that fills its share evicts its own chunks and pages. When memory is short, the
    /// least important class evicts, until it is empty; equally important ones are one queue. A
    /// chunk does not enter if everything in memory is more important, and never if its class has
    /// no share: what it has leaves now. A chunk of low priority takes free memory or replaces one
    /// of its class. A pinned class evicts for itself, and last when tables
    /// need the memory. A dirty page of a class without a share takes memory that nothing else
    /// wants: a checkpoint needs it once more.
    pub fn set_classes(&self, settings: &[ClassSettings; CLASSES]) {
        let are_distinct = self.classes.set(self.bytes_max, settings);
        if are_distinct {
            self.clean.tell_classes_apart();
        }
        self.dirty.tell_classes_apart(are_distinct);
        for class in (0..CLASSES as u8).map(IoClass) {
            let own = ClassSet::one(class);
            while !self.classes.keeps(class) && self.clean.evict(own) {}
        }
        self.settle();
    }

    /// Returns the chunk of a place. After `None`, look up its fingerprint, then call
    /// [`by_content`](Self::by_content).
    pub fn by_place(&self, place: Place, purpose: impl Into<Purpose>) -> Option<Frame> {
        let purpose = purpose.into().of_known_class();
        self.clean.by_place(place, purpose)
    }

    /// Returns the chunk of a fingerprint. Also records that `alias`, if given, has exactly this
    /// content, whether the chunk is in memory or not.
    pub fn by_content(
        &self,
        fingerprint: &Fingerprint,
        alias: Option<Place>,
        purpose: impl Into<Purpose>,
    ) -> Option<Frame> {
        let purpose = purpose.into().of_known_class();
        let found = self.clean.by_content(fingerprint, alias, purpose);
        self.settle();
        found
    }

    /// Keeps a chunk whose bytes the caller has verified against `fingerprint`, and records that
    /// `alias` has exactly this content.
    ///
    /// A chunk longer than [`CHUNK_BYTES_MAX`] is returned and not kept. So is one that finds no
    /// space because callers hold all frames, or because its class may not have it: see
    /// [`Self::set_classes`].
    pub fn insert(
        &self,
        fingerprint: &Fingerprint,
        bytes: &[u8],
        alias: Option<Place>,
        purpose: impl Into<Purpose>,
    ) -> Frame {
        debug_assert!(!fingerprint.is_hole(), "holes take no memory");
        let purpose = purpose.into().of_known_class();
        let class = purpose.class;
        let may_enter = !self.classes.are_distinct()
            || self.classes.keeps(class) && self.make_share(class, bytes.len());
        let run = may_enter.then(|| self.obtain(bytes, Need::For(class)));
        let kept = match run.flatten() {
            Some(run) => self.clean.insert(fingerprint, run, alias, purpose),
            None => {
                alias.inspect(|place| self.clean.forget_place(*place));
                Arc::new(Run::alone(bytes))
            }
        };
        self.settle();
        Frame::new(kept, false)
    }

    /// Forgets a place that has other content now, or none.
    pub fn forget_place(&self, place: Place) {
        self.clean.forget_place(place);
    }

    /// Forgets all places and dirty pages of a closed or deleted object. Visits every place in
    /// memory, at a few nanoseconds each.
    pub fn forget_object(&self, object: u64) {
        self.clean.forget_object(object);
        self.dirty.forget_object(object);
    }

    /// Keeps a dirty page: bytes that are only in the journal. Versions of one page ascend. A put
    /// of the cached version, or of an older one, changes nothing. The page takes the class of its
    /// newest write.
    pub fn put_dirty(
        &self,
        object: u64,
        page: u64,
        version: u64,
        bytes: &[u8; PAGE_BYTES],
        class: IoClass,
    ) {
        let (place, class) = ((object, page), known(class));
        let of_write = (version, class);
        if self.dirty.overwrite(place, of_write, bytes) {
            return;
        }
        let may_enter = !self.classes.are_distinct()
            || !self.classes.keeps(class)
            || self.make_share(class, PAGE_BYTES);
        let run = may_enter.then(|| self.obtain(bytes, Need::For(class)));
        self.dirty.put(place, of_write, run.flatten());
        while self.dirty.bytes() > self.dirty_bytes_max && self.spill_one() {}
        self.settle();
    }

    /// Returns a dirty page in exactly this version. `None`: the journal has it.
    pub fn dirty(&self, object: u64, page: u64, version: u64) -> Option<Frame> {
        let found = self.dirty.get((object, page), version);
        found.map(|run| Frame::new(run, false))
    }

    /// Notes that the page's bytes of this version are in containers now. The page is dropped
    /// unless it is newer.
    pub fn destaged(&self, object: u64, page: u64, version: u64) {
        self.dirty.destaged((object, page), version);
    }

    /// Notes that the page's bytes of this version are in the journal a second time, as `to`.
    pub fn renumber_dirty(&self, object: u64, page: u64, version: u64, to: u64) {
        self.dirty.renumber((object, page), version, to);
    }

    /// Returns true if a policy calls the class important.
    pub fn is_important(&self, class: IoClass) -> bool {
        self.classes.is_important(class)
    }

    /// Returns true if [`by_place`](Self::by_place) would find it. Does not count as a use.
    pub fn is_resident(&self, place: Place) -> bool {
        self.clean.is_resident(place)
    }

    /// Returns true if [`by_content`](Self::by_content) would find it. Does not count as a use.
    pub fn is_content_resident(&self, fingerprint: &Fingerprint) -> bool {
        self.clean.contains(fingerprint)
    }

    /// Returns true if [`dirty`](Self::unwritten) would find it. Does not count as a use.
    pub fn is_dirty_resident(&self, object: u64, page: u64, version: u64) -> bool {
        self.dirty_class(object, page, version).is_some()
    }

    /// Returns the class of a dirty page that is in memory in exactly this version. Does not count
    /// as a use.
    pub fn dirty_class(&self, object: u64, page: u64, version: u64) -> Option<IoClass> {
        self.dirty.class_of((object, page), version)
    }

    /// Returns true while an insert evicts nothing: an eighth of the memory was never needed.
    pub fn has_room(&self) -> bool {
        self.memory.has_room()
    }

    /// Records that `place` has exactly the content of that chunk, if it is in memory. Does not
    /// count as a use.
    pub fn learn_place(&self, fingerprint: &Fingerprint, place: Place) {
        self.clean.learn_place(fingerprint, place);
        self.settle();
    }

    /// Returns true if bytes that a client has received already, in a stream, are worth an insert:
    /// it evicts nothing, or a policy tells what is more important.
    pub fn keeps_streams(&self) -> bool {
        self.has_room() || self.classes.are_distinct()
    }

    /// Returns counts and sizes. They are not of one instant: shards are read one after another.
    pub fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        self.clean.count(&mut counters);
        self.dirty.count(&mut counters);
        counters.bytes_resident = self.memory.used();
        counters
    }

    /// Returns counts and sizes of each class, in the order of their numbers.
    pub fn class_counters(&self) -> [ClassCounters; CLASSES] {
        let mut counters = [ClassCounters::default(); CLASSES];
        self.clean.count_classes(&mut counters);
        self.dirty.count_classes(&mut counters);
        counters
    }
}

#[cfg(test)]
mod tests;
