//! Implements one shard of the clean side: frames by content, and the places of each. `clean` calls
//! this.
//!
//! Invariant: a frame in the table has one content for as long as it is there. Each of its aliases
//! names it, and is in the ring that starts at the frame. A frame that is being evicted is no
//! longer in the table, and keeps its slot until its last alias is removed.

mod aliases;
mod identity;

use crate::extent::Run;
use crate::memory::Frame;
use crate::policy::Heat;
use crate::table::{HashTable, push_exactly, touched_bytes};
use crate::{Purpose, Use};
use aliases::Alias;
use classes::{CLASSES, ClassOccupancy};
pub(crate) use identity::Identity;
use identity::{HOME_BITS, Key, heat_of, home_of};
use std::sync::Arc;
use units::IoClass;

/// Limits on the number of shards of the content side, which is a power of two.
pub(crate) const SHARDS_MIN: usize = 16;
pub(crate) const SHARDS_MAX: usize = 256;
/// Bits of an alias' or frame's number that count within a shard.
pub(crate) const SLOT_BITS: u32 = 20;
const SLOTS_MAX: usize = HashTable::<SLOT_BITS>::IDS_MAX as usize;
const HITS_MAX: u8 = 3;
const NONE: u32 = u32::MAX;

/// A chunk in memory; 24 bytes.
struct Entry {
    /// `None` in a free slot, and in one that waits until the policy forgets it.
    run: Option<Arc<Run>>,
    /// Newest alias, `NONE` without any. In a free slot: the next free one. In a waiting slot: the
    /// bytes that the policy counts.
    newest: u32,
    /// A little above [`aliases::ALIASES_MAX`] at most.
    aliases: u16,
    /// Class of its most important use.
    class: IoClass,
    /// Class that the policy and the sizes count it as: the policy has not moved it yet if it is
    /// another one.
    counted_as: IoClass,
    key: Key,
    flags: u8,
}

const _: () = assert!(size_of::<Entry>() == 24);

/// Flags: hits; prefetched and not demanded yet; evicted, or about to be; no longer known to the
/// policy. The top bits: the tick in which a demand was last counted.
const HITS: u8 = 3;
const UNTOUCHED: u8 = 4;
const LEAVING: u8 = 8;
const UNKNOWN: u8 = 16;
const TICK_SHIFT: u32 = 5;

/// Counts of this shard.
#[derive(Clone, Copy, Default)]
pub(crate) struct ShardCounters {
    pub hits_by_place: u64,
    pub hits_by_content: u64,
    pub misses: u64,
    pub evictions: u64,
    pub frames: u64,
    pub places: u64,
    pub bytes_shared: u64,
}

/// Counts of requests of one class in this shard.
#[derive(Clone, Copy, Default)]
pub(crate) struct ClassTally {
    pub hits: u64,
    pub misses: u64,
    pub evictions: u64,
}

/// Frames and aliases of one shard.
pub(crate) struct ContentShard {
    table: HashTable<SLOT_BITS>,
    frames: Vec<Entry>,
    frame_free: u32,
    aliases: Vec<Alias>,
    alias_free: u32,
    pub counters: ShardCounters,
    /// Counts by class; empty until classes differ for the first time.
    pub by_class: Vec<ClassTally>,
}

impl ContentShard {
    /// Makes an empty shard with address space for this many frames and aliases.
    pub fn new(frames: usize, aliases: usize) -> Self {
        Self {
            table: HashTable::with_room(frames),
            frames: Vec::with_capacity(frames),
            frame_free: NONE,
            aliases: Vec::with_capacity(aliases),
            alias_free: NONE,
            counters: ShardCounters::default(),
            by_class: Vec::new(),
        }
    }

    /// Counts by class from now on.
    pub fn tell_classes_apart(&mut self) {
        let missing = CLASSES - self.by_class.len();
        self.by_class.reserve_exact(missing);
        self.by_class.resize(CLASSES, ClassTally::default());
    }

    pub fn tally(&mut self, class: IoClass) -> Option<&mut ClassTally> {
        self.by_class.get_mut(usize::from(class.0))
    }

    pub fn memory_bytes(&self) -> usize {
        let by_class = self.by_class.capacity() * size_of::<ClassTally>();
        self.table.memory_bytes()
            + touched_bytes(&self.frames)
            + touched_bytes(&self.aliases)
            + by_class
    }

    fn entry(&self, frame: u32) -> Option<&Entry> {
        self.frames.get(frame as usize)
    }

    pub fn find(&self, identity: &Identity) -> Option<u32> {
        let same = |id: &u32| self.entry(*id).is_some_and(|e| e.key == identity.key);
        self.table.candidates(identity.hash).find(same)
    }

    /// Returns the frame's bytes and counts a use of them, once in a tick. A client that reads a
    /// chunk in pieces uses it once. The chunk takes the request's class if that is more important.
    /// The first demand for a prefetched chunk says what it is: the prefetch only guessed.
    pub fn touch(
        &mut self,
        frame: u32,
        purpose: Purpose,
        classes: &ClassOccupancy,
        tick: u8,
    ) -> Option<Frame> {
        let Purpose { for_use, class } = purpose;
        let entry = self.frames.get_mut(frame as usize)?;
        let is_counted = entry.flags >> TICK_SHIFT == tick % 8;
        let is_untouched = entry.flags & UNTOUCHED != 0;
        let is_first = for_use == Use::Demand
            && (is_untouched || class != entry.class && classes.is_above(class, entry.class));
        if is_first {
            entry.class = class;
        }
        if for_use == Use::Demand && (!is_counted || entry.flags & UNTOUCHED != 0) {
            let is_hit = entry.flags & UNTOUCHED == 0 && entry.flags & HITS < HITS_MAX;
            entry.flags = (entry.flags & !UNTOUCHED & 31) | tick << TICK_SHIFT;
            entry.flags += u8::from(is_hit);
        }
        let run = entry.run.clone()?;
        Some(Frame::new(run, is_first))
    }

    /// Keeps a chunk that is not cached; `None` when the shard is full.
    pub fn insert(
        &mut self,
        identity: &Identity,
        run: Arc<Run>,
        purpose: Purpose,
        tick: u8,
    ) -> Option<u32> {
        let untouched = match purpose.for_use {
            Use::Prefetch => UNTOUCHED,
            Use::Demand | Use::Scan => 0,
        };
        let entry = Entry {
            run: Some(run),
            newest: NONE,
            aliases: 0,
            class: purpose.class,
            counted_as: purpose.class,
            key: identity.key,
            flags: untouched | tick << TICK_SHIFT,
        };
        let free = self.frame_free;
        let frame = match self.frames.get_mut(free as usize) {
            Some(slot) => {
                self.frame_free = slot.newest;
                *slot = entry;
                free
            }
            None => push_slot(&mut self.frames, entry)?,
        };
        self.table.insert(identity.hash, frame);
        self.counters.frames += 1;
        Some(frame)
    }

    /// Returns the frame's heat and takes one hit from it.
    pub fn cool(&mut self, frame: u32) -> Heat {
        let Some(entry) = self.frames.get_mut(frame as usize) else {
            debug_assert!(false, "a policy names frames that are here");
            return Heat::default();
        };
        let hits = entry.flags & HITS;
        entry.flags -= u8::from(hits > 0);
        let waiting = entry.newest as usize;
        let bytes = entry.run.as_ref().map_or(waiting, |r| r.taken_bytes());
        // A frame that has left stays where the policy has it.
        let class = match entry.run {
            Some(_) => entry.class,
            None => entry.counted_as,
        };
        Heat {
            hits,
            ..heat_of(&entry.key, class, bytes)
        }
    }

    /// Counts a frame as one of its class, after the policy has moved it there.
    pub fn moved(&mut self, frame: u32, classes: &ClassOccupancy) {
        let Some(entry) = self.frames.get_mut(frame as usize) else {
            return;
        };
        let Some(run) = &entry.run else {
            return;
        };
        let taken_bytes = run.taken_bytes() as u64;
        classes.take_clean(entry.counted_as, taken_bytes);
        classes.add_clean(entry.class, taken_bytes);
        entry.counted_as = entry.class;
    }

    /// Returns the class that a frame is counted as.
    pub fn class_of(&self, frame: u32) -> Option<IoClass> {
        let entry = self.entry(frame)?;
        entry.run.as_ref().map(|_| entry.counted_as)
    }

    /// Makes the frame impossible to find by content and closed to new aliases. Returns false when
    /// there is nothing to evict: the frame was evicted already, or another thread is about to.
    pub fn begin_eviction(&mut self, frame: u32, is_forgotten_by_policy: bool) -> bool {
        let Some(entry) = self.frames.get_mut(frame as usize) else {
            return false;
        };
        if is_forgotten_by_policy {
            entry.flags |= UNKNOWN;
        }
        if entry.flags & LEAVING != 0 {
            // Only the policy's own word frees a slot: another caller may name one that is free.
            if is_forgotten_by_policy && entry.run.is_none() {
                self.free_slot(frame);
            }
            return false;
        }
        entry.flags |= LEAVING;
        let hash = home_of(&entry.key);
        let found = self.table.remove_with(hash, HOME_BITS, frame);
        debug_assert!(found, "a frame that stays is in the table");
        true
    }

    /// Takes the bytes of a frame without aliases. Its slot is free when the policy has forgotten
    /// the frame; otherwise it waits for that.
    pub fn end_eviction(&mut self, frame: u32, classes: &ClassOccupancy) -> Option<Arc<Run>> {
        let entry = self.frames.get_mut(frame as usize)?;
        debug_assert!(entry.flags & LEAVING != 0 && entry.aliases == 0);
        let run = entry.run.take();
        let class = entry.counted_as;
        classes.take_clean(class, run.as_ref().map_or(0, |r| r.taken_bytes() as u64));
        if entry.flags & UNKNOWN != 0 {
            self.free_slot(frame);
        } else {
            entry.newest = run.as_ref().map_or(0, |r| r.taken_bytes()) as u32;
        }
        self.counters.frames -= 1;
        self.counters.evictions += 1;
        if let Some(tally) = self.tally(class) {
            tally.evictions += 1;
        }
        run
    }

    fn free_slot(&mut self, frame: u32) {
        if let Some(entry) = self.frames.get_mut(frame as usize) {
            debug_assert!(entry.flags & UNKNOWN != 0 && entry.run.is_none());
            entry.newest = std::mem::replace(&mut self.frame_free, frame);
        }
    }

    /// Returns the frame's bytes in order to move them, if it has some and only the frame holds
    /// them.
    pub fn movable(&mut self, frame: u32) -> Option<&mut Arc<Run>> {
        let entry = self.frames.get_mut(frame as usize)?;
        entry.run.as_mut().filter(|run| Arc::strong_count(run) == 1)
    }

    /// Returns true if the frame can still be found under this identity.
    pub fn is(&self, frame: u32, identity: &Identity) -> bool {
        self.find(identity) == Some(frame)
    }
}

fn push_slot<T>(slots: &mut Vec<T>, value: T) -> Option<u32> {
    let len = slots.len();
    (len < SLOTS_MAX).then(|| {
        push_exactly(slots, value);
        len as u32
    })
}

#[cfg(test)]
mod tests;
