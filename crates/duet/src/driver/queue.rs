//! Units that have pages in memory, the best first. The driver calls this.
//!
//! Invariant: a unit is in the queue while at least one of its pages is known to be in memory.
//! There are at most `works_max`. Reporting a page twice changes nothing.

use crate::page::Page;
use crate::sparse_set::SparseSet;
use crate::work::Work;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

struct Entry {
    cached_pages: u64,
    score: u64,
    /// The unit may be taken. Otherwise it waits until the task's own order comes near it.
    is_ready: bool,
}

/// See the module's head.
pub(crate) struct Queue {
    works_max: usize,
    /// Pages in memory: of units in the queue, and of some that were in it.
    cached: SparseSet,
    works: BTreeMap<Work, Entry>,
    ready: BTreeSet<(Reverse<u64>, Work)>,
    overlooked: u64,
}

fn number(page: &Page) -> u128 {
    u128::from(page.object) << 64 | u128::from(page.index)
}

impl Queue {
    pub fn new(works_max: usize) -> Self {
        Self {
            works_max,
            cached: SparseSet::default(),
            works: BTreeMap::new(),
            ready: BTreeSet::new(),
            overlooked: 0,
        }
    }

    pub fn clear(&mut self) {
        *self = Self {
            overlooked: self.overlooked,
            ..Self::new(self.works_max)
        };
    }

    pub fn len(&self) -> usize {
        self.works.len()
    }

    /// Number of units that found no space in the queue. They are done in the task's own order.
    pub fn overlooked(&self) -> u64 {
        self.overlooked
    }

    /// A page of the unit is in memory.
    pub fn added(
        &mut self,
        page: &Page,
        work: Work,
        is_ready: bool,
        score: impl FnOnce(u64) -> u64,
    ) {
        if self.has_room_for(work) && self.cached.insert(number(page)) {
            let cached_pages = self.works.get(&work).map_or(0, |entry| entry.cached_pages);
            self.put(work, cached_pages + 1, is_ready, score);
        }
    }

    /// A page of the unit is no longer in memory.
    pub fn removed(&mut self, page: &Page, work: Work, score: impl FnOnce(u64) -> u64) {
        if !self.cached.remove(number(page)) {
            return;
        }
        if let Some(entry) = self.works.get(&work) {
            let left = entry.cached_pages.saturating_sub(1);
            self.set(work, left, false, score);
        }
    }

    /// So many of the unit's pages are in memory. For tasks that know this themselves.
    pub fn set(
        &mut self,
        work: Work,
        cached_pages: u64,
        is_ready: bool,
        score: impl FnOnce(u64) -> u64,
    ) {
        if cached_pages == 0 {
            self.forget(work);
        } else if self.has_room_for(work) {
            self.put(work, cached_pages, is_ready, score);
        }
    }

    fn has_room_for(&mut self, work: Work) -> bool {
        let has_room = self.works.len() < self.works_max || self.works.contains_key(&work);
        self.overlooked += u64::from(!has_room);
        has_room
    }

    fn put(
        &mut self,
        work: Work,
        cached_pages: u64,
        is_ready: bool,
        score: impl FnOnce(u64) -> u64,
    ) {
        let entry = self.works.entry(work).or_insert(Entry {
            cached_pages: 0,
            score: 0,
            is_ready,
        });
        self.ready.remove(&(Reverse(entry.score), work));
        entry.is_ready |= is_ready;
        entry.cached_pages = cached_pages;
        entry.score = score(cached_pages);
        if entry.is_ready && entry.score > 0 {
            self.ready.insert((Reverse(entry.score), work));
        }
    }

    /// Lets the unit be taken from now on.
    pub fn admit(&mut self, work: Work) {
        if let Some(entry) = self.works.get_mut(&work) {
            entry.is_ready = true;
            if entry.score > 0 {
                self.ready.insert((Reverse(entry.score), work));
            }
        }
    }

    /// Returns the unit that is taken next, and the number of its pages in memory.
    pub fn first(&self) -> Option<(Work, u64)> {
        let (_, work) = self.ready.first()?;
        let entry = self.works.get(work)?;
        Some((*work, entry.cached_pages))
    }

    /// Removes and returns the best unit.
    pub fn pop(&mut self) -> Option<Work> {
        let (_, work) = self.ready.pop_first()?;
        self.works.remove(&work);
        Some(work)
    }

    /// Removes a unit.
    pub fn forget(&mut self, work: Work) {
        if let Some(entry) = self.works.remove(&work) {
            self.ready.remove(&(Reverse(entry.score), work));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Space;

    fn page(object: u64, index: u64) -> Page {
        Page {
            space: Space::Chunks,
            object,
            generation: 0,
            index,
        }
    }

    fn work(object: u64) -> Work {
        Work { object, part: 0 }
    }

    #[test]
    fn the_best_is_first_and_what_is_removed_leaves() {
        let mut queue = Queue::new(10);
        for (object, pages) in [(1, 2), (2, 3), (3, 3), (4, 1)] {
            (0..pages).for_each(|n| queue.added(&page(object, n), work(object), true, |n| n));
        }
        // A second report changes nothing.
        queue.added(&page(1, 1), work(1), true, |n| n);
        queue.removed(&page(2, 0), work(2), |n| n);
        queue.removed(&page(2, 0), work(2), |n| n);
        queue.removed(&page(4, 0), work(4), |n| n);
        let order: Vec<u64> = std::iter::from_fn(|| queue.pop())
            .map(|w| w.object)
            .collect();
        assert_eq!(order, [3, 1, 2]);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn what_is_not_ready_waits_and_what_finds_no_room_is_counted() {
        let mut queue = Queue::new(2);
        queue.added(&page(1, 1), work(1), false, |n| n);
        queue.added(&page(2, 1), work(2), true, |n| n);
        queue.added(&page(3, 1), work(3), true, |n| n);
        assert_eq!((queue.overlooked(), queue.len()), (1, 2));
        queue.removed(&page(3, 1), work(3), |n| n);
        assert_eq!(queue.pop(), Some(work(2)));
        assert_eq!(queue.pop(), None);
        queue.admit(work(1));
        assert_eq!(queue.pop(), Some(work(1)));
    }
}
