//! From keys to slots: a hash table of fixed size with chains. `eviction` calls this.
//!
//! Invariant: nothing is allocated after `new`; a slot belongs to one key, or is free.

use std::hash::{DefaultHasher, Hash, Hasher};

/// End of a chain.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry<K> {
    key: Option<K>,
    /// Next of its chain, or of the free ones.
    next: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Table<K> {
    /// First slot of each chain; a power of two.
    chains: Box<[u32]>,
    /// Grows to its capacity, and is never allocated again.
    entries: Vec<Entry<K>>,
    capacity: usize,
    free: u32,
    len: u32,
    seed: u64,
}

impl<K: Copy + Eq + Hash> Table<K> {
    pub(super) fn new(capacity: u32, seed: u64) -> Self {
        let capacity = capacity as usize;
        let chains = capacity.next_power_of_two();
        Self {
            chains: vec![NONE; chains].into(),
            entries: Vec::with_capacity(capacity),
            capacity,
            free: NONE,
            len: 0,
            seed,
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    fn chain_of(&self, key: &K) -> usize {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.seed);
        key.hash(&mut hasher);
        hasher.finish() as usize & (self.chains.len() - 1)
    }

    fn entry(&self, slot: u32) -> Option<&Entry<K>> {
        self.entries.get(slot as usize)
    }

    pub(super) fn key(&self, slot: u32) -> Option<K> {
        self.entry(slot)?.key
    }

    pub(super) fn find(&self, key: &K) -> Option<u32> {
        let mut slot = *self.chains.get(self.chain_of(key))?;
        while let Some(entry) = self.entry(slot) {
            if entry.key.as_ref() == Some(key) {
                return Some(slot);
            }
            slot = entry.next;
        }
        None
    }

    /// Gives a key that is not there a slot; `None` if there is none left.
    pub(super) fn insert(&mut self, key: K) -> Option<u32> {
        let chain = self.chain_of(&key);
        let slot = match self.entry(self.free) {
            Some(free) => {
                let slot = self.free;
                self.free = free.next;
                slot
            }
            None if self.entries.len() < self.capacity => {
                self.entries.push(Entry {
                    key: None,
                    next: NONE,
                });
                (self.entries.len() - 1) as u32
            }
            None => return None,
        };
        let first = self.chains.get_mut(chain)?;
        let entry = self.entries.get_mut(slot as usize)?;
        entry.key = Some(key);
        entry.next = std::mem::replace(first, slot);
        self.len += 1;
        Some(slot)
    }

    /// Frees a slot and returns its key.
    pub(super) fn remove(&mut self, slot: u32) -> Option<K> {
        let Entry { key, next } = *self.entry(slot)?;
        let key = key?;
        let chain = self.chain_of(&key);
        let mut before = None;
        let mut at = *self.chains.get(chain)?;
        while at != slot {
            before = Some(at);
            at = self.entry(at)?.next;
        }
        match before {
            None => *self.chains.get_mut(chain)? = next,
            Some(before) => self.entries.get_mut(before as usize)?.next = next,
        }
        let entry = self.entries.get_mut(slot as usize)?;
        entry.key = None;
        entry.next = std::mem::replace(&mut self.free, slot);
        self.len -= 1;
        Some(key)
    }
}
