//! Implements one shard of the dirty pages: slots, found by place. The dirty side calls this.
//!
//! Invariant: a page has one slot. A free slot has no bytes, and names the next free one.

use crate::extent::Run;
use crate::table::{HashTable, push_exactly, touched_bytes};
use std::sync::Arc;

/// Bits of a page's number that count within a shard.
pub(super) const SLOT_BITS: u32 = 24;
const NONE: u32 = u32::MAX;

/// A page, in exactly this version.
pub(super) struct Page {
    pub object: u64,
    pub page: u64,
    pub version: u64,
    /// `None` in a free slot; then `page` is the next free one.
    pub run: Option<Arc<Run>>,
    pub used: bool,
}

/// Slots and table of one shard.
pub(super) struct Pages {
    table: HashTable<SLOT_BITS>,
    pub pages: Vec<Page>,
    free: u32,
    hand: usize,
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
        self.table.memory_bytes() + touched_bytes(&self.pages)
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
        Some(id)
    }

    /// Frees a slot and returns its bytes.
    pub fn remove(&mut self, hash: u64, id: u32) -> Option<Arc<Run>> {
        let found = self.table.remove(hash, id);
        debug_assert!(found, "a page is in the table");
        let slot = self.pages.get_mut(id as usize)?;
        slot.page = u64::from(self.free);
        self.free = id;
        slot.run.take()
    }

    /// Returns the next page that was not used since the hand passed it.
    pub fn victim(&mut self) -> Option<u32> {
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
