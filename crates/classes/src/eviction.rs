//! Which blocks a cache admits, and which it evicts: selective allocation and selective eviction
//! of Differentiated Storage Services (SOSP'11), by the settings of a policy. Also the
//! size-proportional mode of OCF, and plain LRU as the baseline.
//!
//! The caches of memory and of the fast tier call this, and the evaluation. Keys are block numbers.
//! Invariant: pure and bounded: no allocation after set-up, and a step looks at no more than all
//! classes once. With equal priorities and full shares, `Strict` is LRU over everything.
//!
//! # Admission, in this order
//!
//! 1. Share 0: refused.
//! 2. Low priority (200 and above) while the caller reports pressure: refused.
//! 3. The class fills its share: it evicts its own oldest block.
//! 4. A place is free: it takes it.
//! 5. Another class is above its share (its share shrank, or hits moved blocks to it): that one
//!    evicts, the least important first, also if it is pinned.
//! 6. The least important class that is not more important than this one evicts; of equally
//!    important classes the one with the oldest block. Pinned classes evict only for themselves.
//! 7. There is no such class: refused.

mod lists;
mod ranks;
mod table;

use crate::CLASSES;
use crate::settings::{ClassSettings, Priority, Share};
use lists::Lists;
use ranks::Ranks;
use std::hash::Hash;
use table::Table;
use units::IoClass;

/// Way of eviction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Mode {
    /// The least important class evicts until it is empty.
    #[default]
    Strict,
    /// Classes that are not more important than the new block's evict in proportion to their sizes,
    /// as OCF does today.
    Proportional,
    /// One LRU of everything; classes are only counted.
    LruAll,
}

/// Set-up of an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SetUp {
    /// Number of blocks that the cache holds.
    pub capacity_blocks: u32,
    /// Way of eviction.
    pub mode: Mode,
    /// Seed of the hash of keys. From `media::Random` where clients choose the keys.
    pub seed: u64,
}

/// Why a block was not admitted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Refusal {
    /// The class has no share of the cache.
    NoShare,
    /// The class has low priority, and the caller reported pressure.
    Pressure,
    /// Everything in the cache is more important.
    MoreImportant,
}

/// The fate of a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Admission<K> {
    /// It was there; it counts as used now.
    Present,
    /// It took a free place.
    Free,
    /// It took the place of this block.
    Evicted(K),
    /// It passes by.
    Refused(Refusal),
}

/// Counts of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Requests that found their block.
    pub hits: u64,
    /// Requests that did not.
    pub misses: u64,
    /// Blocks admitted.
    pub admitted: u64,
    /// Blocks refused.
    pub refused: u64,
    /// Blocks evicted.
    pub evicted: u64,
}

/// Priorities from here on are low: they are not admitted under pressure.
pub(crate) const LOW_FROM: u8 = 200;

/// The engine. See the module's head.
#[derive(Clone, Debug)]
pub struct Eviction<K> {
    mode: Mode,
    capacity_blocks: u32,
    table: Table<K>,
    lists: Lists,
    ranks: Ranks,
    /// Blocks that a class may have; by list.
    limits: [u32; CLASSES],
    is_low: [bool; CLASSES],
    tallies: [Tally; CLASSES],
}

impl<K: Copy + Eq + Hash> Eviction<K> {
    /// Makes an empty cache of this many blocks, and allocates all that it will need.
    pub fn new(set_up: SetUp, settings: &[ClassSettings; CLASSES]) -> Self {
        let SetUp {
            capacity_blocks,
            mode,
            seed,
        } = set_up;
        let mut engine = Self {
            mode,
            capacity_blocks,
            table: Table::new(capacity_blocks, seed),
            lists: Lists::new(capacity_blocks),
            ranks: Ranks::default(),
            limits: [0; CLASSES],
            is_low: [false; CLASSES],
            tallies: [Tally::default(); CLASSES],
        };
        engine.set_settings(settings);
        engine
    }

    /// Changes the settings. Blocks above the new shares leave as others are admitted, or by
    /// [`Self::evict_excess`].
    pub fn set_settings(&mut self, settings: &[ClassSettings; CLASSES]) {
        let all = ClassSettings {
            priority: Priority::Evictable(0),
            share: Share::ALL,
        };
        let settings = match self.mode {
            Mode::LruAll => &[all; CLASSES],
            Mode::Strict | Mode::Proportional => settings,
        };
        self.ranks = Ranks::new(&settings.map(|of_class| of_class.priority));
        let fields = self.limits.iter_mut().zip(&mut self.is_low);
        for ((limit, is_low), settings) in fields.zip(settings) {
            // A share above 0 is a block at least: 1 % of a tiny cache is not "do not cache".
            let blocks = settings.share.of(self.capacity_blocks.into());
            let least = u64::from(settings.share != Share::NONE);
            *limit = u32::try_from(blocks.max(least)).unwrap_or(u32::MAX);
            *is_low = matches!(settings.priority, Priority::Evictable(LOW_FROM..));
        }
        for list in 0..CLASSES {
            self.note_len(list);
        }
    }

    /// Asks for a block of a class; if it is there it counts as used now, and as of that class.
    pub fn hit(&mut self, key: &K, class: IoClass) -> bool {
        let Some(slot) = self.table.find(key) else {
            self.count(class, |tally| tally.misses += 1);
            return false;
        };
        self.count(class, |tally| tally.hits += 1);
        self.use_now(slot, class);
        true
    }

    /// Offers a block to the cache. `has_pressure` keeps low priorities out: say so while dirty
    /// data is destaged because there is too much of it, or while the device is the bottleneck.
    pub fn admit(&mut self, key: K, class: IoClass, has_pressure: bool) -> Admission<K> {
        if let Some(slot) = self.table.find(&key) {
            self.use_now(slot, class);
            return Admission::Present;
        }
        let list = self.list_of(class);
        let evicted = match self.choose(list, has_pressure) {
            Ok(None) => None,
            Ok(Some(victim)) => match self.drop_oldest(victim) {
                Some(key) => Some(key),
                None => return self.refuse(class, Refusal::MoreImportant),
            },
            Err(refusal) => return self.refuse(class, refusal),
        };
        let Some(slot) = self.table.insert(key) else {
            return self.refuse(class, Refusal::MoreImportant);
        };
        self.lists.push(slot, list as u8, class);
        self.note_len(list);
        self.count(class, |tally| tally.admitted += 1);
        evicted.map_or(Admission::Free, Admission::Evicted)
    }

    /// Removes a block that the caller dropped: freed, or overwritten elsewhere.
    pub fn remove(&mut self, key: &K) -> bool {
        let Some(slot) = self.table.find(key) else {
            return false;
        };
        self.drop_slot(slot);
        true
    }

    /// Evicts one block of a class that is above its share, if there is one.
    pub fn evict_excess(&mut self) -> Option<K> {
        let list = self.ranks.least_important_over()?;
        self.drop_oldest(list)
    }

    /// Returns true if the block is there, without using it.
    pub fn contains(&self, key: &K) -> bool {
        self.table.find(key).is_some()
    }

    /// Returns the oldest block of a class, which it would evict first. Without meaning for
    /// [`Mode::LruAll`], which has one list.
    pub fn oldest(&self, class: IoClass) -> Option<K> {
        self.table.key(self.lists.oldest(self.list_of(class))?)
    }

    /// Returns the number of blocks.
    pub fn len(&self) -> u32 {
        self.table.len()
    }

    /// Returns true if there are no blocks.
    pub fn is_empty(&self) -> bool {
        self.table.len() == 0
    }

    /// Returns true if no place is free. The published selective allocation reports this as
    /// pressure.
    pub fn is_full(&self) -> bool {
        self.table.len() >= self.capacity_blocks
    }

    /// Returns the number of blocks of a class; for [`Mode::LruAll`] of all, as class 0.
    pub fn len_of(&self, class: IoClass) -> u32 {
        self.lists.len(usize::from(class.0))
    }

    /// Returns the counts of a class.
    pub fn tally(&self, class: IoClass) -> Tally {
        let tally = self.tallies.get(usize::from(class.0));
        tally.copied().unwrap_or_default()
    }

    /// Returns the list of a class. A number that no policy can have is class 0.
    fn list_of(&self, class: IoClass) -> usize {
        match self.mode {
            Mode::LruAll => 0,
            _ if usize::from(class.0) < CLASSES => class.0.into(),
            _ => 0,
        }
    }

    /// Returns the list that evicts for a block of this one, `None` if a place is free.
    fn choose(&mut self, list: usize, has_pressure: bool) -> Result<Option<usize>, Refusal> {
        let limit = self.limits.get(list).copied().unwrap_or(0);
        if limit == 0 || self.capacity_blocks == 0 {
            return Err(Refusal::NoShare);
        }
        if has_pressure && self.is_low.get(list).copied().unwrap_or(false) {
            return Err(Refusal::Pressure);
        }
        if self.lists.len(list) >= limit {
            return Ok(Some(list));
        }
        if !self.is_full() {
            return Ok(None);
        }
        if let Some(over) = self.ranks.least_important_over() {
            return Ok(Some(over));
        }
        let victim = match self.mode {
            Mode::Proportional => self.ranks.in_proportion(list, &self.lists),
            Mode::Strict | Mode::LruAll => self.ranks.least_important(list, &self.lists),
        };
        match victim {
            Some(victim) => Ok(Some(victim)),
            None if self.lists.len(list) > 0 => Ok(Some(list)),
            None => Err(Refusal::MoreImportant),
        }
    }

    fn use_now(&mut self, slot: u32, class: IoClass) {
        let list = self.list_of(class);
        let from = self.lists.list_of(slot);
        self.lists.remove(slot);
        self.lists.push(slot, list as u8, class);
        if usize::from(from) != list {
            self.note_len(from.into());
            self.note_len(list);
        }
    }

    fn drop_oldest(&mut self, list: usize) -> Option<K> {
        let slot = self.lists.oldest(list)?;
        let class = self.lists.class_of(slot);
        self.count(class, |tally| tally.evicted += 1);
        self.drop_slot(slot)
    }

    fn drop_slot(&mut self, slot: u32) -> Option<K> {
        let list = self.lists.list_of(slot);
        self.lists.remove(slot);
        self.note_len(list.into());
        self.table.remove(slot)
    }

    fn note_len(&mut self, list: usize) {
        let len = self.lists.len(list);
        let limit = self.limits.get(list).copied().unwrap_or(0);
        self.ranks.note(list, len > 0, len > limit);
    }

    fn refuse(&mut self, class: IoClass, refusal: Refusal) -> Admission<K> {
        self.count(class, |tally| tally.refused += 1);
        Admission::Refused(refusal)
    }

    fn count(&mut self, class: IoClass, count: impl FnOnce(&mut Tally)) {
        if let Some(tally) = self.tallies.get_mut(usize::from(class.0)) {
            count(tally);
        }
    }
}

#[cfg(test)]
mod tests;
