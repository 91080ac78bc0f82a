//! Decides which slot the next block gets: a free one, or that of a victim. `step` calls this.
//!
//! Invariant: a class at its share evicts only from itself. Otherwise the victim is the longest
//! unused block of the least important class of the same kind, and never of a more important or a
//! pinned one. A kind above its share (the settings changed) gives way first.

use crate::Kind;
use crate::class::{CacheClass, Settings};
use crate::slots::Slots;
use classes::Priority;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use units::UnixNanos;

#[derive(Default)]
struct Blocks {
    count: u64,
    /// Slots by a time that is at most that of their last use. Some are stale.
    order: BinaryHeap<Reverse<(UnixNanos, u32)>>,
}

/// Which slots are free, and which class has the others.
#[derive(Default)]
pub(crate) struct Occupancy {
    free: BinaryHeap<Reverse<u32>>,
    by_class: BTreeMap<CacheClass, Blocks>,
}

impl Occupancy {
    /// A slot is free.
    pub fn add_free(&mut self, slot: u32) {
        self.free.push(Reverse(slot));
    }

    /// A slot has a block of this class.
    pub fn add_block(&mut self, slot: u32, class: CacheClass, used: UnixNanos) {
        let blocks = self.by_class.entry(class).or_default();
        blocks.count += 1;
        blocks.order.push(Reverse((used, slot)));
    }

    /// The slot has no longer a block of this class: it is free.
    pub fn release(&mut self, slot: u32, class: CacheClass) {
        self.uncount(class);
        self.add_free(slot);
    }

    fn uncount(&mut self, class: CacheClass) {
        if let Some(blocks) = self.by_class.get_mut(&class) {
            blocks.count = blocks.count.saturating_sub(1);
        }
    }

    /// Returns the number of blocks of a class.
    pub fn count(&self, class: CacheClass) -> u64 {
        self.by_class.get(&class).map_or(0, |blocks| blocks.count)
    }

    fn count_of_kind(&self, kind: Kind) -> u64 {
        let classes = self.by_class.iter().filter(|(class, _)| class.kind == kind);
        classes.map(|(_, blocks)| blocks.count).sum()
    }

    /// Takes a slot for a block of this class: empty, and nobody finds anything in it any more.
    /// Returns `None` if the class may not displace anything, and the number of evicted blocks.
    /// Free slots from `limit` on are not used.
    pub fn take(
        &mut self,
        class: CacheClass,
        settings: &Settings,
        slots: &Slots,
        limit: u32,
    ) -> (Option<u32>, u64) {
        let total = u64::from(slots.count());
        let evicted = if self.count(class) >= settings.slots_of(class, total) {
            self.evict_from(&[class], slots)
        } else if self.count_of_kind(class.kind) >= settings.slots_of_kind(class.kind, total) {
            self.evict_within(class, settings, slots)
        } else if let Some(Reverse(slot)) = self.free.peek().copied()
            && slot < limit
        {
            self.free.pop();
            return (Some(slot), 0);
        } else {
            let over = self.evict_over_share(settings, slots);
            over.or_else(|| self.evict_within(class, settings, slots))
        };
        (evicted, u64::from(evicted.is_some()))
    }

    /// Evicts a block of a kind that has more than its share.
    fn evict_over_share(&mut self, settings: &Settings, slots: &Slots) -> Option<u32> {
        let total = u64::from(slots.count());
        let excess = |kind: &Kind| {
            let share = settings.slots_of_kind(*kind, total);
            self.count_of_kind(*kind).saturating_sub(share)
        };
        let kind = Kind::ALL.into_iter().max_by_key(excess)?;
        if excess(&kind) == 0 {
            return None;
        }
        self.evict_least_important(kind, Priority::Evictable(0), None, settings, slots)
    }

    fn evict_within(
        &mut self,
        class: CacheClass,
        settings: &Settings,
        slots: &Slots,
    ) -> Option<u32> {
        let own = settings.of(class).priority;
        self.evict_least_important(class.kind, own, Some(class), settings, slots)
    }

    /// Evicts the longest unused block of the least important class that is no more important than
    /// `own`; `always` may be evicted from in any case.
    fn evict_least_important(
        &mut self,
        kind: Kind,
        own: Priority,
        always: Option<CacheClass>,
        settings: &Settings,
        slots: &Slots,
    ) -> Option<u32> {
        let is_candidate = |class: &CacheClass, priority: Priority| {
            let may = priority != Priority::Pinned && priority >= own;
            class.kind == kind && (may || Some(*class) == always)
        };
        let classes = self.by_class.iter().filter(|(_, blocks)| blocks.count > 0);
        let classes = classes.map(|(class, _)| (settings.of(*class).priority, *class));
        let classes = classes.filter(|(priority, class)| is_candidate(class, *priority));
        let classes: Vec<(Priority, CacheClass)> = classes.collect();
        let least = classes.iter().map(|(priority, _)| *priority).max()?;
        let equals = classes.iter().filter(|(priority, _)| *priority == least);
        let equals: Vec<CacheClass> = equals.map(|(_, class)| *class).collect();
        self.evict_from(&equals, slots)
    }

    /// Evicts the longest unused block of these classes.
    fn evict_from(&mut self, classes: &[CacheClass], slots: &Slots) -> Option<u32> {
        let mut oldest = |class: &CacheClass| {
            let used = self.oldest(*class, slots)?;
            Some((used, *class))
        };
        let (_, class) = classes.iter().filter_map(&mut oldest).min()?;
        let blocks = self.by_class.get_mut(&class)?;
        let Reverse((_, slot)) = blocks.order.pop()?;
        // A failed read may have emptied it just now. Then it is counted and freed elsewhere.
        let vacated = slots.vacate(slot)?;
        self.uncount(vacated);
        Some(slot)
    }

    /// Brings the longest unused block of a class to the top of its order. Returns when it was
    /// used.
    fn oldest(&mut self, class: CacheClass, slots: &Slots) -> Option<UnixNanos> {
        let blocks = self.by_class.get_mut(&class)?;
        while let Some(mut top) = blocks.order.peek_mut() {
            let Reverse((noted, slot)) = *top;
            match slots.use_of(slot) {
                Some((found, used)) if found == class && used <= noted => return Some(noted),
                Some((found, used)) if found == class => *top = Reverse((used, slot)),
                _ => drop(std::collections::binary_heap::PeekMut::pop(top)),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
