//! Implements one shard of the dirty pages: slots, found by place. The dirty side calls this.
//!
//! Invariant: a page has one slot. A free slot has no bytes, and names the next free one.

use super::lists::Lists;
use super::page::{Page, SLOT_BITS};
use crate::extent::Run;
use crate::table::{HashTable, push_exactly, touched_bytes};
use classes::{CLASSES, ClassSet};
use std::sync::Arc;
use units::IoClass;

const NONE: u32 = u32::MAX;

/// Counts of one class in this shard.
#[derive(Clone, Copy, Default)]
pub(super) struct ClassTally {
    pub hits: u64,
    pub spills: u64,
}

/// Slots and table of one shard.
pub(super) struct Pages {
    table: HashTable<SLOT_BITS>,
    pub pages: Vec<Page>,
    free: u32,
    hand: usize,
    /// Present while classes differ.
    lists: Option<Lists>,
    /// Counts by class; empty until classes differ for the first time.
    pub by_class: Vec<ClassTally>,
    pub hits: u64,
    pub misses: u64,
    pub spills: u64,
}

impl Pages {
    pub fn new(pages: usize) -> Self {
        Self {
            table: HashTable::with_room(pages),
            pages: Vec::with_capacity(pages),
            free: NONE,
            hand: 0,
            lists: None,
            by_class: Vec::new(),
            hits: 0,
            misses: 0,
            spills: 0,
        }
    }

    pub fn find(&self, hash: u64, object: u64, page: u64) -> Option<u32> {
        let is_it = |id: &u32| {
            let found = self.pages.get(*id as usize);
            found.is_some_and(|p| p.run.is_some() && p.object == object && p.page == page)
        };
        self.table.candidates(hash).find(is_it)
    }

    pub fn memory_bytes(&self) -> usize {
        let lists = self.lists.as_ref().map_or(0, |_| Lists::memory_bytes());
        let by_class = self.by_class.capacity() * size_of::<ClassTally>();
        self.table.memory_bytes() + touched_bytes(&self.pages) + lists + by_class
    }

    /// Adds a page; `None` when the shard is full.
    pub fn add(&mut self, hash: u64, page: Page) -> Option<u32> {
        let free = self.free;
        let id = match self.pages.get_mut(free as usize) {
            Some(slot) => {
                self.free = slot.page as u32;
                *slot = page;
                free
            }
            None => {
                let len = self.pages.len();
                if len >= HashTable::<SLOT_BITS>::IDS_MAX as usize {
                    return None;
                }
                push_exactly(&mut self.pages, page);
                len as u32
            }
        };
        self.table.insert(hash, id);
        if let Some(lists) = &mut self.lists {
            lists.push(&mut self.pages, id);
        }
        Some(id)
    }

    /// Tells the classes of pages apart from now on, or no longer.
    pub fn tell_classes_apart(&mut self, are_distinct: bool) {
        let Self { lists, pages, .. } = self;
        if are_distinct {
            self.by_class.reserve_exact(CLASSES - self.by_class.len());
            self.by_class.resize(CLASSES, ClassTally::default());
            lists.get_or_insert_with(|| Lists::new(pages));
        } else {
            *lists = None;
        }
    }

    /// Changes a page's class.
    pub fn set_class(&mut self, id: u32, class: IoClass) {
        if let Some(lists) = &mut self.lists {
            lists.remove(&mut self.pages, id);
        }
        if let Some(page) = self.pages.get_mut(id as usize) {
            page.class = class;
        }
        if let Some(lists) = &mut self.lists {
            lists.push(&mut self.pages, id);
        }
    }

    /// Counts a page that leaves before it is destaged.
    pub fn count_spill(&mut self, class: IoClass) {
        self.spills += 1;
        if let Some(tally) = self.tally(class) {
            tally.spills += 1;
        }
    }

    /// Returns the counts of a class, once they are counted.
    pub fn tally(&mut self, class: IoClass) -> Option<&mut ClassTally> {
        self.by_class.get_mut(usize::from(class.0))
    }

    /// Frees a slot and returns its bytes.
    pub fn remove(&mut self, hash: u64, id: u32) -> Option<Arc<Run>> {
        let found = self.table.remove(hash, id);
        debug_assert!(found, "a page is in the table");
        if let Some(lists) = &mut self.lists {
            lists.remove(&mut self.pages, id);
        }
        let slot = self.pages.get_mut(id as usize)?;
        slot.page = u64::from(self.free);
        self.free = id;
        slot.run.take()
    }

    /// Returns the next page of these classes that was not used since it was considered last.
    pub fn victim(&mut self, classes: ClassSet) -> Option<u32> {
        match &mut self.lists {
            Some(lists) => lists.victim(&mut self.pages, classes),
            None => self.next_in_slots(),
        }
    }

    fn next_in_slots(&mut self) -> Option<u32> {
        // The second round finds the pages that the first has marked.
        for _ in 0..2 * self.pages.len() {
            let at = self.hand;
            self.hand = (at + 1) % self.pages.len();
            let Some(page) = self.pages.get_mut(at).filter(|p| p.run.is_some()) else {
                continue;
            };
            if !std::mem::replace(&mut page.used, false) {
                return Some(at as u32);
            }
        }
        None
    }
}
