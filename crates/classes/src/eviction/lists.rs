//! One LRU list for each class, over slots. `eviction` calls this.
//!
//! Invariant: a slot is in one list at most, and the stamps of a list rise from oldest to newest.

use crate::CLASSES;
use units::IoClass;

/// No slot.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    older: u32,
    newer: u32,
    /// When it was used last, in uses of the cache.
    stamp: u64,
    list: u8,
    class: IoClass,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    oldest: u32,
    newest: u32,
    len: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Lists {
    links: Box<[Link]>,
    ends: [Ends; CLASSES],
    uses: u64,
}

impl Lists {
    pub(super) fn new(slots: u32) -> Self {
        let link = Link {
            older: NONE,
            newer: NONE,
            stamp: 0,
            list: 0,
            class: IoClass(0),
        };
        let ends = Ends {
            oldest: NONE,
            newest: NONE,
            len: 0,
        };
        Self {
            links: vec![link; slots as usize].into(),
            ends: [ends; CLASSES],
            uses: 0,
        }
    }

    pub(super) fn len(&self, list: usize) -> u32 {
        self.ends.get(list).map_or(0, |ends| ends.len)
    }

    pub(super) fn oldest(&self, list: usize) -> Option<u32> {
        let ends = self.ends.get(list)?;
        (ends.len > 0).then_some(ends.oldest)
    }

    /// Returns when the oldest of a list was used last.
    pub(super) fn oldest_stamp(&self, list: usize) -> u64 {
        let oldest = self.oldest(list);
        oldest.map_or(u64::MAX, |slot| self.link(slot).stamp)
    }

    pub(super) fn list_of(&self, slot: u32) -> u8 {
        self.link(slot).list
    }

    pub(super) fn class_of(&self, slot: u32) -> IoClass {
        self.link(slot).class
    }

    fn link(&self, slot: u32) -> Link {
        self.links.get(slot as usize).copied().unwrap_or(Link {
            older: NONE,
            newer: NONE,
            stamp: u64::MAX,
            list: 0,
            class: IoClass(0),
        })
    }

    /// Adds a slot that is in no list, as the newest.
    pub(super) fn push(&mut self, slot: u32, list: u8, class: IoClass) {
        let Some(ends) = self.ends.get_mut(usize::from(list)) else {
            return;
        };
        let older = std::mem::replace(&mut ends.newest, slot);
        ends.len += 1;
        if ends.len == 1 {
            ends.oldest = slot;
        }
        self.uses += 1;
        if let Some(link) = self.links.get_mut(slot as usize) {
            *link = Link {
                older,
                newer: NONE,
                stamp: self.uses,
                list,
                class,
            };
        }
        if let Some(link) = self.links.get_mut(older as usize) {
            link.newer = slot;
        }
    }

    /// Removes a slot from its list.
    pub(super) fn remove(&mut self, slot: u32) {
        let Link {
            older, newer, list, ..
        } = self.link(slot);
        let Some(ends) = self.ends.get_mut(usize::from(list)) else {
            return;
        };
        ends.len = ends.len.saturating_sub(1);
        match self.links.get_mut(older as usize) {
            Some(link) => link.newer = newer,
            None => ends.oldest = newer,
        }
        match self.links.get_mut(newer as usize) {
            Some(link) => link.older = older,
            None => ends.newest = older,
        }
    }
}
