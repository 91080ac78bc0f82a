//! Random histories against naive models: one session of each kind, registered, fetched and dropped
//! at any time. Delivered items lead to the true state, nothing is delivered twice, and the table
//! has exactly the pending items.

use crate::world;

use duet::{Events, Item, Mask, Members, Page, Scope, Session, Space};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use world::{Numbers, Reported, World, drain, page};

const OBJECTS: u64 = 6;
const PAGES: u64 = 40;

/// Objects of a scope; panics if one is asked for twice.
#[derive(Default)]
struct Files {
    inside: Mutex<BTreeSet<u64>>,
    asked: Mutex<BTreeSet<u64>>,
}

struct Asked(Arc<Files>);

impl Members for Asked {
    fn contains(&self, object: u64, _: u32) -> bool {
        let is_new = self.0.asked.lock().insert(object);
        assert!(is_new, "asked twice for {object}");
        self.0.inside.lock().contains(&object)
    }

    fn path(&self, object: u64) -> Option<String> {
        Some(format!("file {object}"))
    }
}

/// A session and its expected state.
struct Listener {
    session: Session,
    mask: Mask,
    objects: BTreeSet<u64>,
    files: Option<Arc<Files>>,
    reported: Reported,
    /// Single events that are still pending.
    events: BTreeMap<Page, Events>,
    /// True from the first time that the replay was complete and nothing was pending: exact from
    /// then on.
    exact: bool,
}

const EVENTS: [(Mask, Events); 4] = [
    (Mask::ADDED, Events::ADDED),
    (Mask::REMOVED, Events::REMOVED),
    (Mask::DIRTIED, Events::DIRTIED),
    (Mask::FLUSHED, Events::FLUSHED),
];

impl Listener {
    fn new(world: &World, numbers: &mut Numbers) -> Self {
        let pick = |numbers: &mut Numbers, of: &[Mask]| of[numbers.below(of.len() as u64) as usize];
        let both = |a: Mask, b| a.and(b).expect("one kind a pair");
        let first = [Mask::EXISTS, Mask::ADDED, both(Mask::ADDED, Mask::REMOVED)];
        let second = [Mask::MODIFIED, Mask::FLUSHED, Mask::DIRTIED];
        let mask = both(pick(numbers, &first), pick(numbers, &second));
        let (object, files) = (numbers.below(OBJECTS), Arc::new(Files::default()));
        let all: BTreeSet<u64> = (0..OBJECTS).collect();
        let mut is_snapshot = false;
        let (scope, objects) = match numbers.below(4) {
            0 => (Scope::Everything, all),
            1 => (Scope::Object(object), [object].into()),
            2 => (Scope::Range(1..=3), (1..=3).collect()),
            _ => {
                is_snapshot = true;
                let inside = [object, (object + 1) % OBJECTS].into();
                files.inside.lock().clone_from(&inside);
                (Scope::Snapshot(Box::new(Asked(Arc::clone(&files)))), inside)
            }
        };
        let session = world.duet.register(Space::Pages, scope, mask, 0);
        Self {
            session: session.expect("few sessions"),
            mask,
            objects,
            files: is_snapshot.then_some(files),
            reported: Reported::default(),
            events: BTreeMap::new(),
            exact: false,
        }
    }

    fn wants(&self, event: Events) -> bool {
        let found = EVENTS.iter().find(|(_, e)| *e == event);
        found.is_some_and(|(mask, _)| self.mask.and(*mask) == Ok(self.mask))
    }

    fn happened(&mut self, page: Page, events: Events) {
        for (_, event) in EVENTS {
            if events.has(event) && self.wants(event) && self.objects.contains(&page.object) {
                let held = self.events.entry(page).or_default();
                *held = held.and(event);
            }
        }
    }

    fn hear(&mut self, items: &[Item]) {
        for item in items {
            assert!(self.objects.contains(&item.page.object), "out of scope");
            let states = [Mask::EXISTS, Mask::MODIFIED];
            let of = [
                Events::ADDED.and(Events::REMOVED),
                Events::DIRTIED.and(Events::FLUSHED),
            ];
            let mut single = Events::NONE;
            for (state, pair) in states.iter().zip(of) {
                let events = item.events.only(pair);
                if !self.mask.has_state(*state) {
                    single = single.and(events);
                    continue;
                }
                assert!(events != pair, "both at once: {item:?}");
                let item = Item { events, ..*item };
                let is_news = self.reported.hear(&item);
                assert!(is_news || !self.exact, "no news: {item:?}");
            }
            let expected = self.events.remove(&item.page).unwrap_or_default();
            assert!(single.has(expected), "{single:?} instead of {expected:?}");
            assert!(
                single == expected || !self.exact,
                "{single:?} never happened"
            );
        }
    }

    /// Pages with items to deliver.
    fn missing(&self, world: &World) -> BTreeSet<Page> {
        let (cached, dirty) = world.now();
        let mut missing: BTreeSet<Page> = self.events.keys().copied().collect();
        if self.mask.has_state(Mask::EXISTS) {
            missing.extend(cached.symmetric_difference(&self.reported.cached));
        }
        if self.mask.has_state(Mask::MODIFIED) {
            missing.extend(dirty.symmetric_difference(&self.reported.dirty));
        }
        missing.retain(|p| self.objects.contains(&p.object));
        missing
    }

    fn check(&mut self, world: &World) {
        if !self.session.is_replayed() {
            return;
        }
        let (missing, pending) = (self.missing(world).len(), self.session.pending());
        assert!(
            pending >= missing,
            "{missing} to be told, {pending} pending"
        );
        if self.exact && self.files.is_none() {
            assert_eq!(pending, missing, "something is left behind");
        }
        self.exact |= pending == 0;
    }

    fn drain(&mut self, world: &World) {
        let items = drain(&self.session, world);
        self.hear(&items);
        assert_eq!(self.missing(world), BTreeSet::new());
    }
}

fn happen(world: &World, listeners: &mut [Listener], numbers: &mut Numbers) {
    let page = page(numbers.below(OBJECTS), numbers.below(PAGES));
    let (cached, dirty) = world.now();
    let (is_cached, is_dirty) = (cached.contains(&page), dirty.contains(&page));
    let events = match numbers.below(4) {
        0 | 1 if !is_cached => {
            world.add(page);
            Events::ADDED
        }
        0 | 1 if is_dirty => {
            world.remove(page);
            Events::REMOVED.and(Events::FLUSHED)
        }
        0 | 1 => {
            world.remove(page);
            Events::REMOVED
        }
        _ if is_cached => {
            world.set_dirty(page, !is_dirty);
            if is_dirty {
                Events::FLUSHED
            } else {
                Events::DIRTIED
            }
        }
        _ => return,
    };
    listeners.iter_mut().for_each(|l| l.happened(page, events));
}

#[test]
fn what_is_reported_leads_to_what_is() {
    for seed in 0..12 {
        let (world, mut numbers) = (World::new(1 << 20), Numbers(seed));
        let mut listeners: Vec<Listener> = Vec::new();
        for _ in 0..2500 {
            let nth = numbers.below(listeners.len().max(1) as u64) as usize;
            match numbers.below(100) {
                0 if listeners.len() < 6 => {
                    listeners.push(Listener::new(&world, &mut numbers));
                }
                1 if listeners.len() > 3 => {
                    listeners.swap_remove(nth);
                }
                2..30 if !listeners.is_empty() => {
                    let (listener, mut items) = (&mut listeners[nth], Vec::new());
                    let max = numbers.below(20) as usize + 1;
                    listener.session.fetch(&world, max, &mut items);
                    assert!(items.len() <= max);
                    listener.hear(&items);
                }
                30..32 if !listeners.is_empty() => listeners[nth].drain(&world),
                _ => happen(&world, &mut listeners, &mut numbers),
            }
            listeners.iter_mut().for_each(|l| l.check(&world));
        }
        for listener in &mut listeners {
            listener.drain(&world);
            assert_eq!(listener.session.lost(), 0);
        }
        assert_eq!(world.duet.pending(), 0);
    }
}

#[test]
fn a_path_is_reported_for_files_of_a_tree() {
    let (world, files) = (World::new(1000), Arc::new(Files::default()));
    let scope = Scope::Snapshot(Box::new(Asked(files)));
    let session = world.duet.register(Space::Pages, scope, Mask::EXISTS, 0);
    let session = session.expect("the first");
    assert_eq!(session.path(5).as_deref(), Some("file 5"));
}
