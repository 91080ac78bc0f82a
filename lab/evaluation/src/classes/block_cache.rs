//! A cache of blocks that admits and evicts by class: the choice of classes is the one that ships
//! ([`ClassOccupancy`]), the order within a class is LRU. `machine` has two of them.
//!
//! Invariant: it asks what the page cache and the fast tier ask, in their order. While all classes
//! are equal it is one LRU.

use classes::{CLASSES, ClassOccupancy, ClassSet, ClassSettings, Need};
use std::collections::BTreeMap;
use units::IoClass;

/// The fate of a block that is offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It is in the cache.
    Entered,
    /// It is in the cache, in the place of this block.
    Evicted(u64),
    /// It passes by.
    Refused,
}

/// See the module's head.
pub struct BlockCache {
    capacity: u64,
    occupancy: ClassOccupancy,
    /// Class of each block, and when it was used.
    blocks: BTreeMap<u64, (IoClass, u64)>,
    /// Blocks of each class by their last use.
    orders: [BTreeMap<u64, u64>; CLASSES],
    uses: u64,
}

impl BlockCache {
    /// Makes an empty cache of so many blocks.
    pub fn new(capacity: u64, settings: &[ClassSettings; CLASSES]) -> Self {
        let occupancy = ClassOccupancy::new(1);
        occupancy.set(capacity, settings);
        Self {
            capacity,
            occupancy,
            blocks: BTreeMap::new(),
            orders: [const { BTreeMap::new() }; CLASSES],
            uses: 0,
        }
    }

    /// Asks for a block; if it is there it counts as used now, and as of that class.
    pub fn hit(&mut self, block: u64, class: IoClass) -> bool {
        let is_there = self.remove(block);
        if is_there {
            self.insert(block, class);
        }
        is_there
    }

    /// Offers a block.
    pub fn admit(&mut self, block: u64, class: IoClass) -> Admission {
        if self.hit(block, class) {
            return Admission::Entered;
        }
        let classes = if !self.occupancy.keeps(class) {
            None
        } else if self.occupancy.fills_share(class, 1) {
            Some(ClassSet::one(class))
        } else if (self.blocks.len() as u64) < self.capacity {
            self.insert(block, class);
            return Admission::Entered;
        } else {
            let need = Need::For(class);
            self.occupancy.next_to_evict(need, ClassSet::NONE)
        };
        let oldest = |class: IoClass| self.orders.get(usize::from(class.0))?.first_key_value();
        let victim = classes.and_then(|classes| classes.iter().filter_map(oldest).min());
        let Some(victim) = victim.map(|(_, victim)| *victim) else {
            return Admission::Refused;
        };
        self.remove(victim);
        self.insert(block, class);
        Admission::Evicted(victim)
    }

    fn insert(&mut self, block: u64, class: IoClass) {
        self.uses += 1;
        self.blocks.insert(block, (class, self.uses));
        self.orders[usize::from(class.0)].insert(self.uses, block);
        self.occupancy.add_clean(class, 1);
    }

    fn remove(&mut self, block: u64) -> bool {
        let Some((class, used)) = self.blocks.remove(&block) else {
            return false;
        };
        self.orders[usize::from(class.0)].remove(&used);
        self.occupancy.take_clean(class, 1);
        true
    }
}
