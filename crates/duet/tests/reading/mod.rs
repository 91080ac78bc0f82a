//! A store with a page cache, and a task that reads all of it.

use crate::world::{World, page};
use duet::{Item, News, Page, Processed, Task, Work};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

pub const OBJECTS: u64 = 200;
pub const PAGES: u64 = 10;
pub const PAGE_BYTES: u64 = 4096;

/// Objects of ten pages behind an LRU cache.
pub struct Store {
    pub world: World,
    lru: RefCell<VecDeque<Page>>,
    pages_max: usize,
    pub device_reads: Cell<u64>,
}

impl Store {
    pub fn new(items_max: usize, pages_max: usize) -> Rc<Self> {
        Rc::new(Self {
            world: World::new(items_max),
            lru: RefCell::default(),
            pages_max,
            device_reads: Cell::new(0),
        })
    }

    /// Returns true if the page was in memory.
    pub fn read(&self, page: Page) -> bool {
        let mut lru = self.lru.borrow_mut();
        let held = lru.iter().position(|p| *p == page);
        if let Some(place) = held {
            lru.remove(place);
        } else {
            self.device_reads.set(self.device_reads.get() + 1);
            self.world.add(page);
        }
        lru.push_back(page);
        if lru.len() > self.pages_max
            && let Some(victim) = lru.pop_front()
        {
            self.world.remove(victim);
        }
        held.is_some()
    }
}

/// Reads all objects, in ascending or descending order.
pub struct Reader {
    pub store: Rc<Store>,
    pub descends: bool,
    /// Objects in the order in which they were read to the end.
    pub order: Vec<u64>,
    pub at: BTreeMap<u64, u64>,
    pub fails: BTreeSet<u64>,
    pub is_scrub: bool,
    /// Objects that are left for the end.
    pub last: BTreeSet<u64>,
}

impl Reader {
    pub fn new(store: &Rc<Store>) -> Self {
        Self {
            store: Rc::clone(store),
            descends: false,
            order: Vec::new(),
            at: BTreeMap::new(),
            fails: BTreeSet::new(),
            is_scrub: false,
            last: BTreeSet::new(),
        }
    }

    pub fn rank(&self, object: u64) -> Work {
        let object = if self.descends {
            OBJECTS - 1 - object
        } else {
            object
        };
        Work { object, part: 0 }
    }

    fn object(&self, work: Work) -> u64 {
        self.rank(work.object).object
    }
}

impl Task for Reader {
    type Error = u64;

    fn work_of(&self, page: &Page) -> Option<Work> {
        (page.object < OBJECTS).then(|| self.rank(page.object))
    }

    fn pages(&self, _: Work) -> u64 {
        PAGES
    }

    fn next(&mut self, after: Option<Work>) -> Result<Option<Work>, u64> {
        let object = after.map_or(0, |w| w.object + 1);
        Ok((object < OBJECTS).then_some(Work { object, part: 0 }))
    }

    fn is_last(&mut self, work: Work) -> bool {
        self.last.contains(&self.object(work))
    }

    fn hear(&mut self, item: &Item) -> News {
        if self.is_scrub && item.events.has(duet::Events::DIRTIED) {
            return News::Undone(self.rank(item.page.object));
        }
        News::None
    }

    fn process(&mut self, work: Work, budget_bytes: u64) -> Result<Processed, u64> {
        let object = self.object(work);
        if self.fails.contains(&object) {
            return Err(object);
        }
        let mut processed = Processed::default();
        let at = self.at.entry(object).or_default();
        while *at < PAGES && processed.bytes_read + processed.bytes_cached < budget_bytes {
            if self.store.read(page(object, *at)) {
                processed.bytes_cached += PAGE_BYTES;
            } else {
                processed.bytes_read += PAGE_BYTES;
            }
            *at += 1;
        }
        processed.is_done = *at == PAGES;
        if processed.is_done {
            self.at.remove(&object);
            self.order.push(object);
        }
        Ok(processed)
    }
}
