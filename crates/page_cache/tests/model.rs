//! Runs random operations against a naive model. The cache serves only what the model says; a
//! forgotten chunk is no error. Replayed events give the contents of memory, and the budget is
//! kept.

use crate::recording;

use page_cache::{Frame, PageCache, Place, Use};
use recording::{Numbers, Recorder, content, fingerprint, page, recorded};
use std::collections::HashMap;
use units::IoClass;

const BUDGET: u64 = 4 << 20;
const OBJECTS: u64 = 4;
const CHUNKS: u64 = 300;
const PAGES: u64 = 300;

#[derive(Clone, Copy, Debug)]
enum Operation {
    ByPlace(Place),
    ByContent(u64, Option<Place>),
    Insert(u64, Option<Place>),
    ForgetPlace(Place),
    ForgetObject(u64),
    Put { object: u64, page: u64, newer: bool },
    Dirty { object: u64, page: u64, back: u64 },
    Destaged { object: u64, page: u64, back: u64 },
    HoldOrLetGo,
}

#[derive(Default)]
struct Model {
    /// Content of each place, as the caller set it.
    places: HashMap<Place, u64>,
    /// Version of each dirty page that is not destaged.
    dirty: HashMap<(u64, u64), u64>,
    /// Frames that a reader holds, and their contents.
    held: Vec<(Frame, Vec<u8>)>,
    hits: u64,
}

/// Returns lengths of all classes. One in forty is too long to be kept.
fn len_of(n: u64) -> usize {
    match n % 40 {
        0 => 70_000,
        1..10 => 1 + (n * 7919 % 65_536) as usize,
        other => 4096 << (other % 5),
    }
}

fn bytes_of(n: u64) -> Vec<u8> {
    content(n, len_of(n))
}

fn operation(numbers: &mut Numbers) -> Operation {
    let place = Place {
        object: numbers.below(OBJECTS),
        chunk: numbers.below(CHUNKS),
    };
    let (object, page) = (place.object, numbers.below(PAGES));
    // Contents are few enough to be shared and too many to fit.
    let n = numbers.below(20) * numbers.below(40);
    let alias = (!numbers.next().is_multiple_of(4)).then_some(place);
    let back = numbers.below(8).saturating_sub(5);
    match numbers.below(1000) {
        0..250 => Operation::ByPlace(place),
        250..400 => Operation::ByContent(n, alias),
        400..650 => Operation::Insert(n, alias),
        650..700 => Operation::ForgetPlace(place),
        700..702 => Operation::ForgetObject(object),
        702..820 => Operation::Put {
            object,
            page,
            newer: back == 0,
        },
        820..900 => Operation::Dirty { object, page, back },
        900..960 => Operation::Destaged { object, page, back },
        _ => Operation::HoldOrLetGo,
    }
}

impl Model {
    fn apply(&mut self, cache: &PageCache, operation: Operation, numbers: &mut Numbers) {
        let for_use = [Use::Demand, Use::Prefetch, Use::Scan][numbers.below(3) as usize];
        match operation {
            Operation::ByPlace(place) => {
                if let Some(frame) = cache.by_place(place, for_use) {
                    let n = self.places.get(&place).expect("a place without content");
                    assert!(*frame == bytes_of(*n)[..], "{place:?} has other content");
                    self.hits += 1;
                    self.hold(frame, numbers);
                }
            }
            Operation::ByContent(n, alias) => {
                let found = cache.by_content(&fingerprint(n), alias, for_use);
                alias.map(|place| self.places.insert(place, n));
                if let Some(frame) = found {
                    assert!(*frame == bytes_of(n)[..], "other content");
                    self.hits += 1;
                    self.hold(frame, numbers);
                }
            }
            Operation::Insert(n, alias) => {
                let frame = cache.insert(&fingerprint(n), &bytes_of(n), alias, for_use);
                assert!(*frame == bytes_of(n)[..], "other content than was inserted");
                alias.map(|place| self.places.insert(place, n));
            }
            Operation::ForgetPlace(place) => {
                cache.forget_place(place);
                self.places.remove(&place);
            }
            Operation::ForgetObject(object) => {
                cache.forget_object(object);
                self.places.retain(|place, _| place.object != object);
                self.dirty.retain(|(of, _), _| *of != object);
            }
            _ => self.apply_dirty(cache, operation, numbers),
        }
    }

    fn apply_dirty(&mut self, cache: &PageCache, operation: Operation, numbers: &mut Numbers) {
        match operation {
            Operation::Put {
                object,
                page: at,
                newer,
            } => {
                let held = self.dirty.entry((object, at)).or_insert(100);
                let version = if newer { *held + 1 } else { *held };
                // One version has one content.
                cache.put_dirty(object, at, version, &page(object, at, version), IoClass(0));
                *held = version;
            }
            Operation::Dirty {
                object,
                page: at,
                back,
            } => {
                let held = self.dirty.get(&(object, at)).copied();
                let version = held.unwrap_or(100) - back;
                if let Some(frame) = cache.dirty(object, at, version) {
                    assert_eq!(
                        held,
                        Some(version),
                        "an old version, or one that is destaged"
                    );
                    assert!(*frame == page(object, at, version), "another page");
                    self.hits += 1;
                    self.hold(frame, numbers);
                }
            }
            Operation::Destaged {
                object,
                page: at,
                back,
            } => {
                let held = self.dirty.get(&(object, at)).copied();
                let version = held.unwrap_or(100) - back;
                cache.destaged(object, at, version);
                if held == Some(version) {
                    self.dirty.remove(&(object, at));
                }
                assert!(!cache.is_dirty_resident(object, at, version));
            }
            _ => self.held.truncate(numbers.below(40) as usize),
        }
    }

    /// Keeps a reader's frame. It must not change, whatever the cache does.
    fn hold(&mut self, frame: Frame, numbers: &mut Numbers) {
        if numbers.next().is_multiple_of(16) && self.held.len() < 40 {
            let bytes = frame.to_vec();
            self.held.push((frame, bytes));
        }
    }

    fn check(&self, cache: &PageCache, recorder: &Recorder) {
        assert!(self.held.iter().all(|(frame, bytes)| **frame == bytes[..]));
        let places = recorder.places.lock();
        for object in 0..OBJECTS {
            for chunk in 0..CHUNKS {
                let place = Place { object, chunk };
                assert_eq!(
                    cache.is_resident(place),
                    places.contains(&place),
                    "{place:?}"
                );
            }
        }
        let pages = recorder.pages.lock();
        for ((object, at), version) in &self.dirty {
            let is_resident = cache.is_dirty_resident(*object, *at, *version);
            // If the newest version of a page found no space, no version of it may be cached.
            assert_eq!(
                is_resident,
                pages.contains(&(*object, *at)),
                "{object} {at}"
            );
        }
        let counters = cache.counters();
        assert_eq!(counters.places, places.len() as u64);
        assert_eq!(counters.bytes_dirty, pages.len() as u64 * 4096);
    }
}

#[test]
fn what_is_served_is_what_the_model_says() {
    let mut evictions = 0;
    for seed in 0..12 {
        let mut numbers = Numbers(seed);
        let (cache, recorder) = recorded(BUDGET);
        let mut model = Model::default();
        for step in 0..12_000 {
            let operation = operation(&mut numbers);
            model.apply(&cache, operation, &mut numbers);
            let used = cache.counters().bytes_resident;
            assert!(
                used <= BUDGET,
                "{used} after step {step} of {seed}, {operation:?}"
            );
            if step % 1000 == 0 {
                model.check(&cache, &recorder);
            }
        }
        model.check(&cache, &recorder);
        assert!(model.hits > 1000, "{} hits", model.hits);
        let counters = cache.counters();
        evictions += counters.evictions;
        assert!(counters.spills > 0);
        for object in 0..OBJECTS {
            cache.forget_object(object);
        }
        assert!(recorder.places.lock().is_empty());
        assert!(recorder.pages.lock().is_empty());
        // Frames outlive the cache.
        drop(cache);
        assert!(model.held.iter().all(|(frame, bytes)| **frame == bytes[..]));
    }
    assert!(
        evictions > 10_000,
        "{evictions}: the budget was never short"
    );
}
