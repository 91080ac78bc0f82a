//! Repeats Dual-Dedup's experiment in counts. Three jobs read 4 KiB pages at random, and d percent
//! of the pages are duplicates of others. The test counts reads of the device: if the device is the
//! bottleneck, throughput is their inverse.
//!
//! `cargo test --profile ci -p page_cache duplicates:: -- --nocapture` prints the table of
//! `docs/evaluation/page-cache.md`.

use crate::recording;

use page_cache::{PageCache, Place, Use};
use recording::{Numbers, content, fingerprint, page, silent};
use units::IoClass;

/// Pages of one job, and number of jobs.
const PAGES: u64 = 8000;
const JOBS: u64 = 3;

/// Returns the content of a page. Of a hundred pages, `duplicates` have the content of one that is
/// not a duplicate.
fn content_of(place: Place, duplicates: u64) -> u64 {
    let number = place.object * PAGES + place.chunk;
    let is_duplicate = |number: u64| number % 100 * 61 % 100 < duplicates;
    let mut other = number;
    while is_duplicate(other) {
        // Pick a page elsewhere, of any job. 7919 is prime, so every page is reached.
        other = (other + 7919) % (PAGES * JOBS);
    }
    other
}

/// Reads as the store does. Returns true when the device was needed.
fn read(cache: &PageCache, place: Place, n: u64, by_content: bool) -> bool {
    // Without the content side every place has a content of its own.
    let own = PAGES * JOBS + place.object * PAGES + place.chunk;
    let fingerprint = fingerprint(if by_content { n } else { own });
    let found = cache.by_place(place, Use::Demand);
    let found = found.or_else(|| cache.by_content(&fingerprint, Some(place), Use::Demand));
    let is_miss = found.is_none();
    let bytes = content(n, 4096);
    let frame =
        found.unwrap_or_else(|| cache.insert(&fingerprint, &bytes, Some(place), Use::Demand));
    assert!(*frame == bytes[..], "other bytes than the page has");
    is_miss
}

/// Counts device reads of one pass over all pages in random order, or of two in a small cache.
fn device_reads(bytes_max: u64, passes: u64, duplicates: u64, by_content: bool) -> u64 {
    let cache = silent(bytes_max);
    let mut numbers = Numbers(duplicates);
    let mut misses = 0;
    for _ in 0..passes {
        let mut order: Vec<Place> = (0..JOBS)
            .flat_map(|object| (0..PAGES).map(move |chunk| Place { object, chunk }))
            .collect();
        for at in (1..order.len()).rev() {
            order.swap(at, numbers.below(at as u64 + 1) as usize);
        }
        for place in order {
            let n = content_of(place, duplicates);
            misses += u64::from(read(&cache, place, n, by_content));
        }
    }
    misses
}

#[test]
fn duplicates_are_read_once() {
    let total = PAGES * JOBS;
    println!("| duplicates, % | contents, of pages | cold | half in memory, second pass too |");
    println!("|---|---|---|---|");
    for duplicates in [0, 5, 25, 90] {
        let places = (0..JOBS).flat_map(|o| {
            (0..PAGES).map(move |c| Place {
                object: o,
                chunk: c,
            })
        });
        let contents = places.map(|place| content_of(place, duplicates));
        let distinct = contents.collect::<std::collections::HashSet<u64>>().len() as u64;
        let gain = |bytes_max: u64, passes: u64| {
            let without = device_reads(bytes_max, passes, duplicates, false);
            without as f64 / device_reads(bytes_max, passes, duplicates, true) as f64
        };
        let (cold, small) = (gain(256 << 20, 1), gain(total * 4096 / 2, 2));
        let share = distinct as f64 / total as f64;
        println!("| {duplicates} | {share:.3} | {cold:.2} | {small:.2} |");
        // Every content is read once, so the gain is the inverse of the share of contents.
        assert!((cold - 1.0 / share).abs() < 1e-9);
        assert!(
            small >= 0.99 / share || small >= 0.99 && duplicates == 0,
            "{small}"
        );
    }
}

/// A page is written, destaged and read repeatedly while its neighbours have its old content. No
/// read returns the page's old content or another page's.
#[test]
fn written_pages_are_never_served_stale() {
    let cache = silent(8 << 20);
    let mut numbers = Numbers(1);
    // Version and content of each page; version 0 is clean.
    let mut pages: Vec<(u64, u64)> = (0..500).map(|n| (0, n % 50)).collect();
    for step in 1..60_000u64 {
        let chunk = numbers.below(500);
        let place = Place { object: 1, chunk };
        let Some((version, n)) = pages.get_mut(chunk as usize) else {
            continue;
        };
        match numbers.below(10) {
            0..3 => {
                *version = step;
                cache.put_dirty(1, chunk, step, &page(1, chunk, step), IoClass(0));
            }
            3..5 if *version > 0 => {
                // The destager has stored it: its content duplicates another page's.
                cache.forget_place(place);
                cache.destaged(1, chunk, *version);
                (*version, *n) = (0, numbers.below(50));
            }
            _ if *version > 0 => {
                if let Some(frame) = cache.dirty(1, chunk, *version) {
                    assert!(*frame == page(1, chunk, *version), "a dirty window shows");
                }
            }
            _ => {
                read(&cache, place, *n, true);
            }
        }
    }
    let counters = cache.counters();
    assert!(
        counters.hits_by_content > 100 && counters.hits_dirty > 1000,
        "{counters:?}"
    );
}
