//! Tests that the cache feeds Duet: a session that starts at any time learns the contents of
//! memory.

use crate::recording;

use duet::{Duet, Item, Mask, Page, Scope, Session, Space};
use page_cache::{PageCache, PageCacheOptions, PageEvents, Place, S3Fifo, Use};
use recording::{Numbers, Recorder, content, fingerprint, page};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use units::IoClass;

/// Passes events to both.
struct Both(Recorder, Arc<Duet>);

impl PageEvents for Both {
    fn added(&self, place: Place) {
        self.0.added(place);
        self.1.added(place);
    }
    fn removed(&self, place: Place) {
        self.0.removed(place);
        self.1.removed(place);
    }
    fn dirtied(&self, object: u64, page: u64) {
        self.0.dirtied(object, page);
        self.1.dirtied(object, page);
    }
    fn flushed(&self, object: u64, page: u64) {
        self.0.flushed(object, page);
        self.1.flushed(object, page);
    }
    fn spilled(&self, object: u64, page: u64) {
        self.0.spilled(object, page);
        self.1.spilled(object, page);
    }
}

fn cache(bytes_max: u64) -> (PageCache, Arc<Both>) {
    let duet = Duet::new(duet::DuetOptions {
        items_max: 1 << 20,
        seed: 3,
    });
    let both = Arc::new(Both(Recorder::default(), duet));
    let events: Arc<Both> = Arc::clone(&both);
    let policy = Box::new(S3Fifo::new(bytes_max));
    let cache = PageCache::new(PageCacheOptions::new(bytes_max, 42), policy, events);
    (cache, both)
}

fn act(cache: &PageCache, numbers: &mut Numbers) {
    let (object, chunk) = (numbers.below(3), numbers.below(700));
    let place = Place { object, chunk };
    match numbers.below(20) {
        0..9 => {
            let n = numbers.below(900);
            cache.insert(&fingerprint(n), &content(n, 4096), Some(place), Use::Demand);
        }
        9..11 => cache.forget_place(place),
        11..16 => cache.put_dirty(object, chunk, 1, &page(object, chunk, 1), IoClass(0)),
        16..19 => cache.destaged(object, chunk, 1),
        _ if numbers.below(400) == 0 => cache.forget_object(object),
        _ => {}
    }
}

/// A session in each space, and the events it received.
struct Listener {
    sessions: [Session; 2],
    cached: HashSet<Page>,
    modified: HashSet<Page>,
}

impl Listener {
    fn new(duet: &Arc<Duet>) -> Self {
        let both = Mask::EXISTS.and(Mask::MODIFIED).expect("two pairs");
        let register = |space| {
            let session = duet.register(space, Scope::Everything, both, 0);
            session.expect("few sessions")
        };
        Self {
            sessions: [Space::Chunks, Space::Pages].map(register),
            cached: HashSet::new(),
            modified: HashSet::new(),
        }
    }

    fn hear(&mut self, items: Vec<Item>) {
        for Item { page, events } in items {
            let sets = [
                (&mut self.cached, duet::Events::ADDED, duet::Events::REMOVED),
                (
                    &mut self.modified,
                    duet::Events::DIRTIED,
                    duet::Events::FLUSHED,
                ),
            ];
            for (set, begins, ends) in sets {
                if events.has(begins) {
                    set.insert(page);
                }
                if events.has(ends) {
                    set.remove(&page);
                }
            }
        }
    }

    fn fetch(&mut self, cache: &PageCache) {
        let mut items = Vec::new();
        for session in &self.sessions {
            session.fetch(cache, 64, &mut items);
        }
        self.hear(items);
    }

    fn drain(&mut self, cache: &PageCache) {
        let waits = |s: &Session| !s.is_replayed() || s.pending() > 0;
        while self.sessions.iter().any(waits) {
            self.fetch(cache);
        }
    }

    fn assert_knows(&self, recorder: &Recorder) {
        let chunk = |p: &Page| Place {
            object: p.object,
            chunk: p.index,
        };
        let of = |space| self.cached.iter().filter(move |p| p.space == space);
        let chunks: HashSet<Place> = of(Space::Chunks).map(chunk).collect();
        assert!(chunks == *recorder.places.lock());
        let pages: HashSet<(u64, u64)> = of(Space::Pages).map(|p| (p.object, p.index)).collect();
        assert!(pages == *recorder.pages.lock());
        let modified = self.modified.iter().map(|p| (p.object, p.index));
        assert!(pages == modified.collect());
    }
}

#[test]
fn sessions_know_what_is_in_memory() {
    let (cache, events) = cache(4 << 20);
    let mut numbers = Numbers(1);
    let mut early = Listener::new(&events.1);
    for round in 0..12 {
        (0..2000).for_each(|_| act(&cache, &mut numbers));
        let mut late = Listener::new(&events.1);
        for _ in 0..round {
            (0..100).for_each(|_| act(&cache, &mut numbers));
            late.fetch(&cache);
            early.fetch(&cache);
        }
        for listener in [&mut early, &mut late] {
            listener.drain(&cache);
            listener.assert_knows(&events.0);
        }
    }
    assert!(cache.counters().evictions > 0 && cache.counters().spills > 0);
}

#[test]
fn an_object_is_visited_alone_and_whole() {
    use duet::{Events, Present};
    let (cache, events) = cache(4 << 20);
    let mut numbers = Numbers(5);
    (0..3000).for_each(|_| act(&cache, &mut numbers));
    let visited = |space| {
        let mut visited = HashSet::new();
        cache.replay_object(space, 1, &mut |page: &Page, page_events: Events| {
            assert_eq!((page.space, page.object), (space, 1));
            assert_eq!(page_events.has(Events::DIRTIED), space == Space::Pages);
            assert!(visited.insert(page.index));
        });
        visited
    };
    let places = events.0.places.lock().clone();
    let chunks = places.iter().filter(|p| p.object == 1).map(|p| p.chunk);
    assert!(visited(Space::Chunks) == chunks.collect());
    let pages = events.0.pages.lock().clone();
    let pages = pages.iter().filter(|p| p.0 == 1).map(|p| p.1);
    assert!(visited(Space::Pages) == pages.collect());
}

#[test]
fn also_beside_other_threads() {
    let (cache, events) = cache(4 << 20);
    let (cache, stop) = (&cache, &AtomicBool::new(false));
    let mut listeners = std::thread::scope(|scope| {
        for thread in 0..2 {
            scope.spawn(move || {
                let mut numbers = Numbers(thread);
                while !stop.load(Ordering::Relaxed) {
                    act(cache, &mut numbers);
                }
            });
        }
        let mut listeners = vec![Listener::new(&events.1)];
        for round in 0..40 {
            listeners.truncate(3);
            listeners.push(Listener::new(&events.1));
            for listener in &mut listeners {
                (0..round).for_each(|_| listener.fetch(cache));
            }
        }
        stop.store(true, Ordering::Relaxed);
        listeners
    });
    for listener in &mut listeners {
        listener.drain(cache);
        listener.assert_knows(&events.0);
    }
}
