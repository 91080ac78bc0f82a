//! Decides which slot the next block gets: a free one, or that of a victim. `step` calls this.
//!
//! Invariant: no slot stays free that a kind could use. A class at its share evicts its own. For
//! others, when no slot is free, a block leaves of which less than half is still needed, whatever
//! its class. When there is none, a kind at its share or above evicts its own, and one below its
//! share takes from the kind that is most above. Within a kind, [`ClassOccupancy`] chooses the
//! classes that evict, and the victim is their longest unused block. A class of low priority has
//! free slots only: in memory it replaces its own, here that would cost a write for data that is
//! hardly read.

use crate::Kind;
use crate::class::{CacheClass, TierSettings};
use crate::slots::Slots;
use classes::{CLASSES, ClassOccupancy, ClassSet, Need};
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};
use units::{IoClass, UnixNanos};

/// Blocks of one kind.
struct Blocks {
    /// Counts them by class.
    counts: ClassOccupancy,
    /// Slots of each class by a time that is at most that of their last use. Some are stale.
    orders: [BinaryHeap<Reverse<(UnixNanos, u32)>>; CLASSES],
}

impl Default for Blocks {
    fn default() -> Self {
        Self {
            // A class with a share has a slot, however small the tier.
            counts: ClassOccupancy::new(1),
            orders: [const { BinaryHeap::new() }; CLASSES],
        }
    }
}

impl Blocks {
    fn count(&self) -> u64 {
        let classes = (0..CLASSES as u8).map(IoClass);
        classes.map(|class| self.counts.held(class)).sum()
    }

    /// Counts a block less. A reader may give up a block of an earlier use of the tier.
    fn uncount(&mut self, class: IoClass) {
        if self.counts.held(class) > 0 {
            self.counts.take_clean(class, 1);
        }
    }

    /// Evicts the longest unused block of the classes that evict next for this need.
    fn evict(&mut self, kind: Kind, need: Need, slots: &Slots) -> Option<u32> {
        let classes = self.counts.next_to_evict(need, ClassSet::NONE)?;
        self.evict_from(kind, classes, slots)
    }

    /// Evicts the longest unused block of these classes.
    fn evict_from(&mut self, kind: Kind, classes: ClassSet, slots: &Slots) -> Option<u32> {
        let oldest = |class| Some((self.oldest(CacheClass::new(kind, class), slots)?, class));
        let candidates = classes.iter().filter_map(oldest);
        let (_, class) =
            candidates.min_by_key(|(used, class): &(UnixNanos, IoClass)| (*used, class.0))?;
        let Reverse((_, slot)) = self.orders.get_mut(usize::from(class.0))?.pop()?;
        // A failed read may have emptied it just now. Then it is counted and freed elsewhere.
        let vacated = slots.vacate(slot)?;
        self.uncount(vacated.io);
        Some(slot)
    }

    /// Brings the longest unused block of a class to the top of its order. Returns when it was
    /// used.
    fn oldest(&mut self, class: CacheClass, slots: &Slots) -> Option<UnixNanos> {
        let order = self.orders.get_mut(usize::from(class.io.0))?;
        while let Some(mut top) = order.peek_mut() {
            let Reverse((noted, slot)) = *top;
            match slots.use_of(slot) {
                Some((found, used)) if found == class && used <= noted => return Some(noted),
                Some((found, used)) if found == class => *top = Reverse((used, slot)),
                _ => drop(PeekMut::pop(top)),
            }
        }
        None
    }
}

/// Which slots are free, and which class has the others.
#[derive(Default)]
pub(crate) struct Occupancy {
    free: BinaryHeap<Reverse<u32>>,
    /// Slots and generations of blocks of which less than half is needed. Some are stale.
    hardly_needed: VecDeque<(u32, u8)>,
    /// By the number of the kind.
    kinds: [Blocks; 3],
}

impl Occupancy {
    fn of(&mut self, kind: Kind) -> &mut Blocks {
        &mut self.kinds[kind as usize % 3]
    }

    /// A slot is free.
    pub fn add_free(&mut self, slot: u32) {
        self.free.push(Reverse(slot));
    }

    /// A slot has a block of this class.
    pub fn add_block(&mut self, slot: u32, class: CacheClass, used: UnixNanos) {
        let blocks = self.of(class.kind);
        blocks.counts.add_clean(class.io, 1);
        if let Some(order) = blocks.orders.get_mut(usize::from(class.io.0)) {
            order.push(Reverse((used, slot)));
        }
    }

    /// Less than half of these blocks is still needed.
    pub fn add_hardly_needed(&mut self, blocks: Vec<(u32, u8)>, slots: &Slots) {
        self.hardly_needed.extend(blocks);
        // While slots are free nothing takes from the queue, but classes at their shares evict.
        if self.hardly_needed.len() > slots.count() as usize {
            self.hardly_needed
                .retain(|(slot, generation)| slots.is_current(*slot, *generation));
        }
    }

    /// Evicts the block that is hardly needed for the longest time.
    fn evict_hardly_needed(&mut self, slots: &Slots) -> Option<u32> {
        while let Some((slot, generation)) = self.hardly_needed.pop_front() {
            if let Some(class) = slots.vacate_generation(slot, generation) {
                self.of(class.kind).uncount(class.io);
                return Some(slot);
            }
        }
        None
    }

    /// The slot has no longer a block of this class: it is free.
    pub fn release(&mut self, slot: u32, class: CacheClass) {
        self.of(class.kind).uncount(class.io);
        self.add_free(slot);
    }

    /// Returns the number of blocks of a class.
    pub fn count(&self, class: CacheClass) -> u64 {
        let blocks = self.kinds.get(class.kind as usize);
        blocks.map_or(0, |blocks| blocks.counts.held(class.io))
    }

    /// Returns true if a slot below `limit` is free.
    pub fn has_free(&self, limit: u32) -> bool {
        let free = self.free.peek().copied();
        free.is_some_and(|Reverse(slot)| slot < limit)
    }

    /// Takes a slot for a block of this class: empty, and nobody finds anything in it any more.
    /// Returns `None` if the class may not displace anything, and the number of evicted blocks.
    /// Free slots from `limit` on are not used.
    pub fn take(
        &mut self,
        class: CacheClass,
        settings: &TierSettings,
        slots: &Slots,
        limit: u32,
    ) -> (Option<u32>, u64) {
        let (kind, total) = (class.kind, u64::from(slots.count()));
        let share = settings.slots_of_kind(kind, total);
        let has_free = self.has_free(limit);
        let blocks = self.of(kind);
        blocks.counts.set(share, settings.of_kind(kind));
        let fills_share = blocks.counts.fills_share(class.io, 1);
        if has_free && !fills_share {
            let slot = self.free.pop().map(|Reverse(slot)| slot);
            return (slot, 0);
        }
        let evicted = if settings.of(class).priority.is_low() {
            None
        } else if fills_share {
            blocks.evict_from(kind, ClassSet::one(class.io), slots)
        } else {
            let hardly_needed = self.evict_hardly_needed(slots);
            hardly_needed.or_else(|| self.evict_by_class(class, share, settings, slots))
        };
        (evicted, u64::from(evicted.is_some()))
    }

    /// Evicts a block that is needed, for one of this class.
    fn evict_by_class(
        &mut self,
        class: CacheClass,
        share: u64,
        settings: &TierSettings,
        slots: &Slots,
    ) -> Option<u32> {
        let kind = class.kind;
        if self.of(kind).count() >= share {
            return self.of(kind).evict(kind, Need::For(class.io), slots);
        }
        let over = self.evict_over_share(settings, slots);
        over.or_else(|| self.of(kind).evict(kind, Need::For(class.io), slots))
    }

    /// Evicts a block of the kind that is most above its share. Pinned classes there leave last:
    /// they have no right to the share of another kind.
    fn evict_over_share(&mut self, settings: &TierSettings, slots: &Slots) -> Option<u32> {
        let total = u64::from(slots.count());
        let excess = |kind: &Kind| {
            let count = self.kinds.get(*kind as usize).map_or(0, Blocks::count);
            count.saturating_sub(settings.slots_of_kind(*kind, total))
        };
        let kind = Kind::ALL.into_iter().max_by_key(excess)?;
        if excess(&kind) == 0 {
            return None;
        }
        let share = settings.slots_of_kind(kind, total);
        let blocks = self.of(kind);
        blocks.counts.set(share, settings.of_kind(kind));
        blocks.evict(kind, Need::Budget, slots)
    }
}

#[cfg(test)]
mod tests;
