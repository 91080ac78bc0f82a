//! Helpers of this crate's tests: pages in memory that report their events, in stripes with a lock
//! each, as a page cache does.
#![allow(dead_code, reason = "each test uses some of it")]

use duet::{Duet, DuetOptions, Events, Item, Page, Position, Present, Session, Space};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Numbers from a seed (splitmix64).
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

pub fn page(object: u64, index: u64) -> Page {
    Page {
        space: Space::Pages,
        object,
        generation: 0,
        index,
    }
}

const STRIPES: usize = 8;

/// Pages in memory; true for dirty ones.
pub struct World {
    pub duet: Arc<Duet>,
    stripes: Vec<Mutex<BTreeMap<Page, bool>>>,
}

impl World {
    pub fn new(items_max: usize) -> Self {
        let options = DuetOptions {
            items_max,
            seed: 11,
        };
        Self {
            duet: Duet::new(options),
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
        }
    }

    fn stripe_of(&self, page: &Page) -> &Mutex<BTreeMap<Page, bool>> {
        &self.stripes[(page.object * 7 + page.index) as usize % STRIPES]
    }

    pub fn add(&self, page: Page) {
        let mut stripe = self.stripe_of(&page).lock();
        if let std::collections::btree_map::Entry::Vacant(entry) = stripe.entry(page) {
            entry.insert(false);
            self.duet.record(&page, Events::ADDED);
        }
    }

    /// A dirty page is flushed first.
    pub fn remove(&self, page: Page) {
        let mut stripe = self.stripe_of(&page).lock();
        match stripe.remove(&page) {
            Some(true) => self
                .duet
                .record(&page, Events::REMOVED.and(Events::FLUSHED)),
            Some(false) => self.duet.record(&page, Events::REMOVED),
            None => {}
        }
    }

    pub fn set_dirty(&self, page: Page, is_dirty: bool) {
        let mut stripe = self.stripe_of(&page).lock();
        if let Some(dirty) = stripe.get_mut(&page)
            && *dirty != is_dirty
        {
            *dirty = is_dirty;
            let event = if is_dirty {
                Events::DIRTIED
            } else {
                Events::FLUSHED
            };
            self.duet.record(&page, event);
        }
    }

    /// Cached pages, and dirty ones.
    pub fn now(&self) -> (BTreeSet<Page>, BTreeSet<Page>) {
        let (mut cached, mut dirty) = (BTreeSet::new(), BTreeSet::new());
        for stripe in &self.stripes {
            let stripe = stripe.lock();
            cached.extend(stripe.keys());
            dirty.extend(stripe.iter().filter(|(_, d)| **d).map(|(p, _)| p));
        }
        (cached, dirty)
    }
}

fn events_of(is_dirty: bool) -> Events {
    if is_dirty {
        Events::ADDED.and(Events::DIRTIED)
    } else {
        Events::ADDED
    }
}

impl Present for World {
    fn replay(
        &self,
        space: Space,
        position: Option<Position>,
        max: usize,
        visit: &mut dyn FnMut(&Page, Events),
    ) -> Option<Position> {
        let [stripe, packed] = position.map_or([0, 0], |p| p.0);
        let held = self.stripes.get(stripe as usize)?.lock();
        let from = page(packed >> 32, packed & u64::from(u32::MAX));
        let mut visited = held.range(from..).filter(|(p, _)| p.space == space);
        for (page, is_dirty) in visited.by_ref().take(max) {
            visit(page, events_of(*is_dirty));
        }
        let next = visited.next().map(|(p, _)| p.object << 32 | p.index);
        Some(Position(match next {
            Some(packed) => [stripe, packed],
            None => [stripe + 1, 0],
        }))
    }

    fn replay_object(&self, space: Space, object: u64, visit: &mut dyn FnMut(&Page, Events)) {
        for stripe in &self.stripes {
            let held = stripe.lock();
            let of = |p: &Page| p.space == space && p.object == object;
            for (page, is_dirty) in held.iter().filter(|(p, _)| of(p)) {
                visit(page, events_of(*is_dirty));
            }
        }
    }
}

/// Knowledge of a session, built from its items.
#[derive(Default)]
pub struct Reported {
    pub cached: BTreeSet<Page>,
    pub dirty: BTreeSet<Page>,
}

impl Reported {
    /// Applies an item; returns false if it is no news.
    pub fn hear(&mut self, item: &Item) -> bool {
        let Item { page, events } = *item;
        let mut is_news = true;
        if events.has(Events::ADDED) {
            is_news &= self.cached.insert(page);
        }
        if events.has(Events::REMOVED) {
            is_news &= self.cached.remove(&page);
        }
        if events.has(Events::DIRTIED) {
            is_news &= self.dirty.insert(page);
        }
        if events.has(Events::FLUSHED) {
            is_news &= self.dirty.remove(&page);
        }
        is_news
    }
}

/// Returns all pending items.
pub fn drain(session: &Session, present: &dyn Present) -> Vec<Item> {
    let mut items = Vec::new();
    while !session.is_replayed() || session.pending() > 0 {
        session.fetch(present, 100, &mut items);
    }
    items
}
