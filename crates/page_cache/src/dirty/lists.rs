//! Lists of a shard's dirty pages by class, the oldest first. `shard` keeps them while classes
//! differ; else it evicts in the order of its slots.
//!
//! Invariant: a page in memory is in the list of its class. The links lie in the page's own slot,
//! in bytes that were free.

use super::page::{Links, Page, SLOT_BITS, Slot};
use classes::{CLASSES, ClassSet};
use units::IoClass;

const NONE: u32 = (1 << SLOT_BITS) - 1;

/// Oldest and newest page of each class.
pub(super) struct Lists {
    ends: Box<[(u32, u32); CLASSES]>,
}

impl Lists {
    /// Makes the lists of these pages, in the order of their versions.
    pub fn new(pages: &mut [Page]) -> Self {
        let mut lists = Self {
            ends: Box::new([(NONE, NONE); CLASSES]),
        };
        let held = (0..).zip(pages.iter()).filter(|(_, p)| p.run.is_some());
        let mut by_age: Vec<(u64, u32)> = held.map(|(id, p)| (p.version, id)).collect();
        by_age.sort_unstable();
        for (_, id) in by_age {
            lists.push(pages, id);
        }
        lists
    }

    pub const fn memory_bytes() -> usize {
        size_of::<[(u32, u32); CLASSES]>() + 16
    }

    fn ends(&mut self, class: IoClass) -> &mut (u32, u32) {
        &mut self.ends[usize::from(class.0) % CLASSES]
    }

    /// Adds a page as the newest of its class.
    pub fn push(&mut self, pages: &mut [Page], id: u32) {
        let Some(page) = pages.get_mut(id as usize) else {
            return;
        };
        let (oldest, newest) = self.ends(page.class);
        let older = std::mem::replace(newest, id);
        if older == NONE {
            *oldest = id;
        }
        page.links = Links {
            older: Slot::of(older),
            newer: Slot::of(NONE),
        };
        if let Some(page) = pages.get_mut(older as usize) {
            page.links.newer = Slot::of(id);
        }
    }

    /// Removes a page from the list of its class.
    pub fn remove(&mut self, pages: &mut [Page], id: u32) {
        let Some((class, links)) = pages.get(id as usize).map(|p| (p.class, p.links)) else {
            return;
        };
        let (older, newer) = (links.older.id(), links.newer.id());
        match pages.get_mut(older as usize) {
            Some(page) => page.links.newer = links.newer,
            None => self.ends(class).0 = newer,
        }
        match pages.get_mut(newer as usize) {
            Some(page) => page.links.older = links.older,
            None => self.ends(class).1 = older,
        }
    }

    /// Returns the page of these classes that is written longest ago and was not used since it was
    /// considered last.
    pub fn victim(&mut self, pages: &mut [Page], classes: ClassSet) -> Option<u32> {
        // The second round finds the pages that the first has marked.
        for _ in 0..=2 * pages.len() {
            let oldest = classes.iter().filter_map(|class| {
                let (oldest, _) = *self.ends(class);
                pages.get(oldest as usize).map(|p| (p.version, oldest))
            });
            let (_, id) = oldest.min()?;
            let page = pages.get_mut(id as usize)?;
            if !std::mem::replace(&mut page.used, false) {
                return Some(id);
            }
            self.remove(pages, id);
            self.push(pages, id);
        }
        None
    }
}
