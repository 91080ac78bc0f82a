//! A cache of blocks that evicts the one that was not used for the longest time. The host's memory
//! and the conventional cache have one.

use std::collections::BTreeMap;

/// See the module's head.
#[derive(Clone, Debug)]
pub struct Lru {
    capacity: u64,
    used: BTreeMap<u64, u64>,
    order: BTreeMap<u64, u64>,
    uses: u64,
}

impl Lru {
    /// Makes an empty cache of so many blocks.
    pub fn new(capacity: u64) -> Self {
        Self {
            capacity,
            used: BTreeMap::new(),
            order: BTreeMap::new(),
            uses: 0,
        }
    }

    /// Returns the number of blocks.
    pub fn len(&self) -> u64 {
        self.used.len() as u64
    }

    /// Returns true if a block is there, which does not count as a use.
    pub fn has(&self, block: u64) -> bool {
        self.used.contains_key(&block)
    }

    /// Uses a block; if it is new and there is no room, returns the block that it replaces.
    pub fn admit(&mut self, block: u64) -> Option<u64> {
        self.uses += 1;
        if let Some(before) = self.used.insert(block, self.uses) {
            self.order.remove(&before);
        }
        self.order.insert(self.uses, block);
        if self.len() <= self.capacity {
            return None;
        }
        let (_, victim) = self.order.pop_first()?;
        self.used.remove(&victim);
        Some(victim)
    }

    /// Forgets a block.
    pub fn remove(&mut self, block: u64) {
        if let Some(used) = self.used.remove(&block) {
            self.order.remove(&used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_leaves() {
        let mut lru = Lru::new(2);
        assert_eq!([1, 2, 1].map(|block| lru.admit(block)), [None; 3]);
        assert_eq!(lru.admit(3), Some(2));
        lru.remove(1);
        assert_eq!(lru.admit(4), None);
        assert!(lru.has(3) && !lru.has(1) && lru.len() == 2);
    }
}
