//! Runs threads that share contents and compete for a small budget. Each has its own objects, so it
//! knows their contents. All use one cache, one listener and one set of contents.

use crate::recording;

use page_cache::{PageCache, Place, Use};
use recording::{Numbers, content, fingerprint, page, recorded};
use std::collections::HashMap;
use units::IoClass;

const BUDGET: u64 = 4 << 20;
const THREADS: u64 = 4;
const STEPS: u64 = 40_000;
const CONTENTS: u64 = 1500;

fn bytes_of(n: u64) -> Vec<u8> {
    content(n, 4096 << (n % 5))
}

/// Runs one thread. Panics when the cache serves wrong bytes.
fn live(cache: &PageCache, thread: u64, templates: &[Vec<u8>]) -> u64 {
    let mut numbers = Numbers(thread);
    let mut places = HashMap::new();
    let mut dirty = HashMap::new();
    let mut held = Vec::new();
    let mut hits = 0;
    for step in 0..STEPS {
        // Few contents are hot, so that threads meet there.
        let n = numbers.below(CONTENTS).min(numbers.below(CONTENTS));
        let place = Place {
            object: thread,
            chunk: numbers.below(400),
        };
        let at = numbers.below(400);
        match numbers.below(100) {
            0..35 => {
                if let Some(frame) = cache.by_place(place, Use::Demand) {
                    let n: &u64 = places.get(&place).expect("a place that has nothing");
                    assert!(*frame == templates[*n as usize][..], "other content");
                    held.push((frame, *n));
                    hits += 1;
                }
            }
            35..75 => {
                let found = cache.by_content(&fingerprint(n), Some(place), Use::Demand);
                let frame = found.unwrap_or_else(|| {
                    let bytes = &templates[n as usize];
                    cache.insert(&fingerprint(n), bytes, Some(place), Use::Demand)
                });
                assert!(*frame == templates[n as usize][..], "other content");
                places.insert(place, n);
            }
            75..80 => {
                cache.forget_place(place);
                places.remove(&place);
            }
            80..90 => {
                cache.put_dirty(thread, at, step, &page(thread, at, step), IoClass(0));
                dirty.insert(at, step);
            }
            90..95 => {
                if let Some(version) = dirty.get(&at)
                    && let Some(frame) = cache.dirty(thread, at, *version)
                {
                    assert!(*frame == page(thread, at, *version), "another page");
                    hits += 1;
                }
            }
            _ => {
                if let Some(version) = dirty.remove(&at) {
                    cache.destaged(thread, at, version);
                }
            }
        }
        if held.len() > 10 {
            for (frame, n) in held.drain(..) {
                assert!(
                    *frame == templates[n as usize][..],
                    "a held frame has changed"
                );
            }
        }
    }
    hits
}

#[test]
fn threads_are_served_what_is_theirs() {
    let templates: Vec<Vec<u8>> = (0..CONTENTS).map(bytes_of).collect();
    let (cache, recorder) = recorded(BUDGET);
    let hits: u64 = std::thread::scope(|scope| {
        let lives: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (cache, templates) = (&cache, &templates);
                scope.spawn(move || live(cache, thread, templates))
            })
            .collect();
        lives.into_iter().map(|l| l.join().expect("a thread")).sum()
    });
    assert!(hits > 1000, "{hits}");
    let counters = cache.counters();
    assert!(
        counters.evictions > 1000 && counters.spills > 0,
        "{counters:?}"
    );
    // This frees an extent that could not be removed while frames of it were held.
    cache.insert(&fingerprint(0), &templates[0], None, Use::Demand);
    let used = cache.counters().bytes_resident;
    assert!(used <= BUDGET, "{used}");
    let places = recorder.places.lock().clone();
    for object in 0..THREADS {
        for chunk in 0..400 {
            let place = Place { object, chunk };
            assert_eq!(
                cache.is_resident(place),
                places.contains(&place),
                "{place:?}"
            );
        }
    }
    for thread in 0..THREADS {
        cache.forget_object(thread);
    }
    assert!(recorder.places.lock().is_empty());
    assert!(recorder.pages.lock().is_empty());
    let counters = cache.counters();
    assert_eq!((counters.places, counters.bytes_shared), (0, 0));
}
