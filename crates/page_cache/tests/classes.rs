//! Classes choose what is evicted: the least important first, nothing for a less important one, and
//! each class within its share.

use crate::recording;

use classes::{CLASSES, ClassSettings, Priority, Share};
use page_cache::{PageCache, PageCacheOptions, PageEvents, Place, S3Fifo, Use};
use parking_lot::Mutex;
use recording::{Numbers, content, fingerprint, page, silent};
use std::collections::HashMap;
use std::sync::Arc;
use units::IoClass;

const BUDGET: u64 = 16 << 20;
const METADATA: IoClass = IoClass(1);
const FILES: IoClass = IoClass(11);
const BULK: IoClass = IoClass(21);
const BACKUP: IoClass = IoClass(50);

type Settings = [ClassSettings; CLASSES];

fn settings(of: &[(IoClass, Priority, u8)]) -> Settings {
    let mut settings = [ClassSettings {
        priority: Priority::Evictable(100),
        share: Share::ALL,
    }; CLASSES];
    for (class, priority, hundredths) in of {
        settings[usize::from(class.0)] = ClassSettings {
            priority: *priority,
            share: Share::from_hundredths(*hundredths).expect("a share"),
        };
    }
    settings
}

fn policy() -> Settings {
    settings(&[
        (METADATA, Priority::Pinned, 100),
        (FILES, Priority::Evictable(10), 100),
        (BULK, Priority::Evictable(200), 100),
        (BACKUP, Priority::Evictable(255), 0),
    ])
}

fn place(class: IoClass, n: u64) -> Place {
    Place {
        object: u64::from(class.0),
        chunk: n,
    }
}

/// Number of a content that only this class has.
fn number(class: IoClass, n: u64) -> u64 {
    u64::from(class.0) << 40 | n
}

fn insert(cache: &PageCache, class: IoClass, n: u64, len: usize, for_use: Use) {
    let number = number(class, n);
    let bytes = content(number, len);
    let alias = Some(place(class, n));
    let frame = cache.insert(&fingerprint(number), &bytes, alias, for_use.of(class));
    assert!(*frame == bytes[..], "other bytes");
}

fn put(cache: &PageCache, class: IoClass, n: u64, version: u64) {
    let object = u64::from(class.0);
    cache.put_dirty(object, n, version, &page(object, n, version), class);
}

fn is_resident(cache: &PageCache, class: IoClass, n: u64) -> bool {
    cache.is_resident(place(class, n))
}

/// Inserts four times the budget in all sizes and ways, and as many dirty pages.
fn flood(cache: &PageCache, class: IoClass, from: u64) {
    let mut inserted = 0;
    for n in from.. {
        let len = 4096 << (n % 5);
        let for_use = [Use::Demand, Use::Scan, Use::Prefetch][(n % 3) as usize];
        insert(cache, class, n, len, for_use);
        cache.by_place(place(class, n), Use::Demand.of(class));
        put(cache, class, n, n);
        inserted += len as u64;
        if inserted > 4 * BUDGET {
            return;
        }
    }
}

/// Keeps a third of the budget, and returns how many chunks that are.
fn fill_a_third(cache: &PageCache, class: IoClass) -> u64 {
    let mut n = 0;
    let bytes = |cache: &PageCache| cache.class_counters()[usize::from(class.0)].bytes_clean;
    while bytes(cache) < BUDGET / 3 {
        insert(cache, class, n, 4096 << (n % 3), Use::Demand);
        n += 1;
    }
    n
}

#[test]
fn a_scan_of_bulk_evicts_no_file_and_no_metadata() {
    let cache = silent(BUDGET);
    cache.set_classes(&policy());
    let files = fill_a_third(&cache, FILES);
    let metadata = fill_a_third(&cache, METADATA);
    flood(&cache, BULK, 0);
    flood(&cache, BACKUP, 0);
    assert!((0..files).all(|n| is_resident(&cache, FILES, n)));
    assert!((0..metadata).all(|n| is_resident(&cache, METADATA, n)));
    let counters = cache.class_counters();
    let of = |class: IoClass| counters[usize::from(class.0)];
    assert_eq!((of(FILES).evictions, of(METADATA).evictions), (0, 0));
    assert!(
        of(BULK).evictions > 1000 && of(BULK).hits > 100,
        "{:?}",
        of(BULK)
    );
    assert_eq!(
        of(BACKUP).bytes_clean,
        0,
        "a class without a share is not kept"
    );
    assert!(cache.counters().bytes_resident <= BUDGET);
}

/// The same scan without a policy: this shows that the test above can fail.
#[test]
fn without_a_policy_a_scan_evicts_what_was_read_once() {
    let cache = silent(BUDGET);
    let files = fill_a_third(&cache, FILES);
    flood(&cache, BULK, 0);
    assert!((0..files).all(|n| !is_resident(&cache, FILES, n)));
}

#[test]
fn a_pinned_class_stays_while_tables_grow() {
    let cache = silent(BUDGET);
    cache.set_classes(&policy());
    // Large chunks in memory that small ones fragment: not every one finds another place.
    let mut metadata = 0;
    for n in 0..20_000 {
        if n % 40 == 0 && cache.class_counters()[1].bytes_clean < BUDGET / 3 {
            insert(&cache, METADATA, metadata, 64 << 10, Use::Demand);
            metadata += 1;
        }
        insert(&cache, FILES, n, 2048 << (n % 3), Use::Demand);
    }
    // Many places for each chunk: tables grow, and extents are emptied for them.
    for n in 0..60_000 {
        let alias = Some(Place {
            object: 900 + n % 40,
            chunk: n,
        });
        let content = number(FILES, (1 << 20) + n / 40);
        let bytes = recording::content(content, 2048 << (n % 3));
        let purpose = Use::Demand.of(FILES);
        cache.insert(&fingerprint(content), &bytes, alias, purpose);
    }
    flood(&cache, FILES, 100_000);
    let is_left = |n: &u64| is_resident(&cache, METADATA, *n);
    assert_eq!((0..metadata).filter(is_left).count() as u64, metadata);
    assert!(metadata > 70, "{metadata}");
    assert!(cache.counters().bytes_resident <= BUDGET);
}

#[test]
fn a_class_over_its_share_evicts_only_itself() {
    let cache = silent(BUDGET);
    let shares = [(METADATA, 10), (FILES, 30), (BULK, 20)];
    let of = shares.map(|(class, share)| (class, Priority::Evictable(7), share));
    cache.set_classes(&settings(&of));
    let mut numbers = Numbers(3);
    for step in 0..30_000 {
        let (class, share) = shares[numbers.below(3) as usize];
        let n = numbers.below(2000);
        match numbers.below(3) {
            0 => put(&cache, class, n, step),
            _ => insert(&cache, class, n, 4096 << (n % 5), Use::Demand),
        }
        let counters = cache.class_counters()[usize::from(class.0)];
        let bytes = counters.bytes_clean + counters.bytes_dirty;
        assert!(
            bytes <= BUDGET * u64::from(share) / 100,
            "{bytes} of {class:?}"
        );
    }
    // The three have 60 % together: each is full, and nothing else was evicted.
    for (class, share) in shares {
        let counters = cache.class_counters()[usize::from(class.0)];
        let bytes = counters.bytes_clean + counters.bytes_dirty;
        assert!(
            bytes + (128 << 10) > BUDGET * u64::from(share) / 100,
            "{bytes} of {class:?}"
        );
    }
    assert!(cache.has_room());
}

/// Selective allocation: what is low takes free memory, or replaces its own.
#[test]
fn a_low_class_displaces_no_other_however_unimportant() {
    const LOWEST: IoClass = IoClass(33);
    let of = |bulk| {
        settings(&[
            (BULK, Priority::Evictable(bulk), 100),
            (LOWEST, Priority::Evictable(255), 100),
        ])
    };
    for (bulk, is_low) in [(200, true), (199, false)] {
        let cache = silent(BUDGET);
        cache.set_classes(&of(bulk));
        let kept = fill_a_third(&cache, LOWEST);
        flood(&cache, BULK, 0);
        let here = (0..kept)
            .filter(|n| is_resident(&cache, LOWEST, *n))
            .count() as u64;
        // Tables that grow may take some.
        let is_right = if is_low {
            here * 20 > kept * 19
        } else {
            here == 0
        };
        assert!(is_right, "{here} of {kept} beside {bulk}");
        let counters = cache.class_counters();
        let of_bulk = counters[usize::from(BULK.0)];
        let taken = of_bulk.bytes_clean + of_bulk.bytes_dirty;
        assert!(taken > BUDGET / 4, "{taken} of free memory were taken");
        assert!(of_bulk.evictions > 1000, "it turns over what it has");
    }
}

#[test]
fn the_first_request_that_says_what_bytes_are_for_is_known() {
    let cache = silent(BUDGET);
    insert(&cache, FILES, 1, 4096, Use::Prefetch);
    insert(&cache, FILES, 2, 4096, Use::Prefetch);
    insert(&cache, FILES, 3, 4096, Use::Demand);
    let by_place = |n, for_use: Use| {
        let found = cache.by_place(place(FILES, n), for_use.of(METADATA));
        found.expect("it is here").is_first_of_class()
    };
    let by_content = |n| {
        let name = fingerprint(number(FILES, n));
        let found = cache.by_content(&name, None, Use::Demand.of(METADATA));
        found.expect("it is here").is_first_of_class()
    };
    assert!(!by_place(1, Use::Scan) && !by_place(1, Use::Prefetch));
    assert!(by_place(1, Use::Demand) && !by_place(1, Use::Demand));
    assert!(by_content(2) && !by_content(2) && !by_place(2, Use::Demand));
    assert!(!by_place(3, Use::Demand), "it was demanded before");
    // From now on metadata is more important than files.
    cache.set_classes(&policy());
    assert!(!by_place(2, Use::Demand) && !by_place(3, Use::Scan));
    assert!(by_place(3, Use::Demand) && !by_place(3, Use::Demand));
}

#[test]
fn settings_hold_soon_after_they_change() {
    let cache = silent(BUDGET);
    cache.set_classes(&policy());
    let metadata = fill_a_third(&cache, METADATA);
    let files = fill_a_third(&cache, FILES);
    put(&cache, METADATA, 1, 1);
    flood(&cache, BULK, 0);
    assert!((0..metadata).all(|n| is_resident(&cache, METADATA, n)));
    // Metadata becomes the least important: it leaves for the next bulk, files stay.
    cache.set_classes(&settings(&[
        (METADATA, Priority::Evictable(199), 100),
        (FILES, Priority::Pinned, 100),
        (BULK, Priority::Evictable(198), 100),
    ]));
    flood(&cache, BULK, 1 << 20);
    assert!((0..metadata).all(|n| !is_resident(&cache, METADATA, n)));
    assert!(!cache.is_dirty_resident(u64::from(METADATA.0), 1, 1));
    assert!((0..files).all(|n| is_resident(&cache, FILES, n)));
    // A share of nothing: the class leaves at once, although it is pinned. Its dirty pages stay
    // while nothing else wants the memory.
    put(&cache, FILES, 1, 1);
    cache.set_classes(&settings(&[(FILES, Priority::Pinned, 0)]));
    assert!((0..files).all(|n| !is_resident(&cache, FILES, n)));
    assert_eq!(
        cache.class_counters()[usize::from(FILES.0)].bytes_clean,
        0,
        "a class without a share is not kept"
    );
    assert!(cache.is_dirty_resident(u64::from(FILES.0), 1, 1));
    flood(&cache, METADATA, 1 << 20);
    assert!(!cache.is_dirty_resident(u64::from(FILES.0), 1, 1));
    // All equal again: the order of slots and one queue are back.
    cache.set_classes(&settings(&[]));
    flood(&cache, FILES, 1 << 20);
    assert!(cache.counters().bytes_resident <= BUDGET);
}

#[test]
fn a_chunk_of_two_classes_has_the_more_important_one() {
    let cache = silent(BUDGET);
    cache.set_classes(&policy());
    let at = |n: u64| place(FILES, n);
    for n in 0..500 {
        insert(&cache, BULK, n, 4096, Use::Demand);
        let content = fingerprint(number(BULK, n));
        let found = cache.by_content(&content, Some(at(n)), Use::Demand.of(FILES));
        assert!(found.is_some());
        // A use that is less important takes nothing away, and a scan gives nothing.
        cache.by_place(at(n), Use::Demand.of(BULK));
        insert(&cache, BULK, 1000 + n, 4096, Use::Demand);
        cache.by_place(place(BULK, 1000 + n), Use::Scan.of(FILES));
    }
    flood(&cache, BULK, 1 << 20);
    assert!((0..500).all(|n| cache.is_resident(at(n))));
    assert!((1000..1500).all(|n| !is_resident(&cache, BULK, n)));
    let counters = cache.class_counters();
    let moved = counters[usize::from(FILES.0)].bytes_clean;
    assert_eq!(moved, 500 * 4096, "they count as files now");
}

/// A chunk that was read ahead beside files turns out to be bulk.
#[test]
fn the_first_demand_says_what_a_prefetched_chunk_is() {
    let cache = silent(BUDGET);
    cache.set_classes(&policy());
    for n in 0..500 {
        insert(&cache, FILES, n, 4096, Use::Prefetch);
        cache.by_place(place(FILES, n), Use::Demand.of(BULK));
    }
    // Files need the space: their queue meets these chunks, and bulk cannot stay.
    flood(&cache, FILES, 1 << 20);
    assert!((0..500).all(|n| !is_resident(&cache, FILES, n)));
}

#[test]
fn what_is_not_kept_is_still_returned_and_its_place_forgotten() {
    let cache = silent(BUDGET);
    cache.set_classes(&policy());
    insert(&cache, FILES, 1, 4096, Use::Demand);
    let (bytes, purpose) = (content(7, 4096), Use::Demand.of(BACKUP));
    let frame = cache.insert(&fingerprint(7), &bytes, Some(place(FILES, 1)), purpose);
    assert!(*frame == bytes[..]);
    assert!(!cache.is_content_resident(&fingerprint(7)));
    assert!(
        !is_resident(&cache, FILES, 1),
        "the place has other content now"
    );
    // A dirty page of such a class takes free memory, and is the first to leave.
    put(&cache, BACKUP, 1, 1);
    assert_eq!(cache.dirty_class(50, 1, 1), Some(BACKUP));
    flood(&cache, BULK, 0);
    assert_eq!(cache.dirty_class(50, 1, 1), None);
}

#[test]
fn a_dirty_page_has_the_class_of_its_newest_write() {
    let cache = silent(BUDGET);
    cache.set_classes(&policy());
    cache.put_dirty(1, 1, 1, &[1; 4096], METADATA);
    let held = cache.dirty(1, 1, 1).expect("just put");
    cache.put_dirty(1, 1, 2, &[2; 4096], BULK);
    assert_eq!(cache.dirty_class(1, 1, 2), Some(BULK));
    cache.put_dirty(1, 1, 3, &[3; 4096], FILES);
    drop(held);
    cache.put_dirty(1, 1, 2, &[2; 4096], BULK);
    assert_eq!(
        cache.dirty_class(1, 1, 3),
        Some(FILES),
        "older writes change nothing"
    );
    let bytes = cache.class_counters().map(|of| of.bytes_dirty);
    assert_eq!(bytes.iter().sum::<u64>(), 4096);
    assert_eq!(bytes[usize::from(FILES.0)], 4096);
}

/// Nothing may evict anything else, and memory is full.
#[test]
fn sixty_four_pinned_classes_end_no_insert_and_exceed_no_budget() {
    let cache = silent(4 << 20);
    let pinned = settings(&[]).map(|of| ClassSettings {
        priority: Priority::Pinned,
        ..of
    });
    cache.set_classes(&pinned);
    let mut numbers = Numbers(9);
    for step in 0..20_000 {
        // Numbers beyond 63 are class 0.
        let class = IoClass(numbers.below(80) as u8);
        let n = numbers.below(5000);
        match numbers.below(4) {
            0 => put(&cache, class, n, step),
            1 => drop(cache.by_content(
                &fingerprint(n),
                Some(place(class, n)),
                Use::Demand.of(class),
            )),
            _ => insert(
                &cache,
                class,
                n,
                1 + (n as usize * 977) % 65_536,
                Use::Demand,
            ),
        }
        let used = cache.counters().bytes_resident;
        assert!(used <= 4 << 20, "{used} after {step}");
    }
    let counters = cache.class_counters();
    assert!(counters.iter().filter(|of| of.bytes_clean > 0).count() > 30);
    // Half of them lose their share in the middle of it.
    let mut halved = pinned;
    halved
        .iter_mut()
        .step_by(2)
        .for_each(|of| of.share = Share::NONE);
    cache.set_classes(&halved);
    for n in 0..2000 {
        insert(&cache, IoClass(1), (1 << 20) + n, 4096, Use::Demand);
    }
    let counters = cache.class_counters();
    assert!(
        counters
            .iter()
            .step_by(2)
            .all(|of| of.bytes_clean + of.bytes_dirty == 0)
    );
}

/// Classes of what leaves, in order.
#[derive(Default)]
struct Leaving(Mutex<Vec<IoClass>>);

impl PageEvents for Leaving {
    fn removed(&self, place: Place) {
        self.0.lock().push(IoClass(place.object as u8));
    }

    fn spilled(&self, object: u64, _: u64) {
        self.0.lock().push(IoClass(object as u8));
    }
}

/// Bytes of each class in the model, as many as came and did not leave.
type Sizes = HashMap<u8, i64>;

/// Returns true if `victim` may leave for an insert of `class`, by the rules of the policy.
fn may_leave(victim: IoClass, class: IoClass, settings: &Settings, sizes: &Sizes) -> bool {
    let of = |class: u8| settings[usize::from(class)];
    let size = |class: u8| sizes.get(&class).copied().unwrap_or(0);
    let limit = |class: u8| match of(class).share {
        Share::ALL => i64::MAX,
        Share::NONE => 0,
        share => (share.of(BUDGET) as i64).max(64 << 10),
    };
    let is_over = |class: u8| size(class) > limit(class);
    let fills_share = size(class.0) + 4096 > limit(class.0);
    if victim == class && fills_share {
        return true;
    }
    let rank = |class: u8| match (of(class).share, of(class).priority) {
        (Share::NONE, _) => 999,
        (_, Priority::Pinned) => -1,
        (_, Priority::Evictable(priority)) => i32::from(priority),
    };
    let filled = || (0..64u8).filter(|other| size(*other) > 0);
    // One above its share is first; of those the least important.
    if let Some(over) = filled().filter(|other| is_over(*other)).map(rank).max() {
        return is_over(victim.0) && rank(victim.0) == over;
    }
    let below = |other: u8| rank(other) >= rank(class.0).max(0) || other == class.0;
    let least = filled().filter(|other| below(*other)).map(rank).max();
    below(victim.0) && Some(rank(victim.0)) == least
}

/// Random inserts under random policies that change in between: each eviction is one that the rules
/// name. Chunks have one size, so that none must leave for the shape of free memory.
#[test]
fn each_eviction_is_of_the_class_that_the_policy_names() {
    let mut checked = 0;
    for seed in 0..6 {
        let mut numbers = Numbers(seed);
        let leaving = Arc::new(Leaving::default());
        let events: Arc<Leaving> = Arc::clone(&leaving);
        let policy = Box::new(S3Fifo::new(BUDGET));
        let cache = PageCache::new(PageCacheOptions::new(BUDGET, 42), policy, events);
        let mut settings = settings(&[]);
        let mut sizes = Sizes::new();
        for step in 0..30_000u64 {
            if step % 5000 == 4000 {
                for of in settings.iter_mut().take(8) {
                    of.priority = match numbers.below(6) {
                        0 => Priority::Pinned,
                        n => Priority::Evictable(n as u8 / 2),
                    };
                    let share = [0, 1, 5, 20, 100, 100][numbers.below(6) as usize];
                    of.share = Share::from_hundredths(share).expect("a share");
                }
                cache.set_classes(&settings);
                leaving.0.lock().clear();
                let counters = cache.class_counters();
                sizes = (0u8..)
                    .zip(counters)
                    .map(|(class, of)| (class, (of.bytes_clean + of.bytes_dirty) as i64))
                    .collect();
            }
            let class = IoClass(numbers.below(8) as u8);
            let before = cache.class_counters();
            let is_dirty = numbers.below(5) == 0;
            match is_dirty {
                true => put(&cache, class, step, step),
                false => insert(&cache, class, step, 4096, Use::Demand),
            }
            if numbers.below(3) == 0 {
                cache.by_place(
                    place(class, step - numbers.below(step + 1)),
                    Use::Demand.of(class),
                );
            }
            let evicted = std::mem::take(&mut *leaving.0.lock());
            let is_dirty_limit =
                before.iter().map(|of| of.bytes_dirty).sum::<u64>() + 4096 > BUDGET / 2;
            for victim in evicted {
                // Growing tables and too many dirty pages evict for the budget.
                if !is_dirty_limit {
                    assert!(
                        may_leave(victim, class, &settings, &sizes),
                        "{victim:?} for {class:?} at {step} of {seed}: {sizes:?} {:?}",
                        &settings[..8]
                    );
                    checked += 1;
                }
                *sizes.entry(victim.0).or_default() -= 4096;
            }
            let counters = cache.class_counters();
            for (class, of) in (0u8..).zip(counters) {
                sizes.insert(class, (of.bytes_clean + of.bytes_dirty) as i64);
            }
            assert!(cache.counters().bytes_resident <= BUDGET);
        }
    }
    assert!(checked > 20_000, "{checked}");
}

/// Equal classes are one queue: tags without a difference change no hit ratio.
#[test]
fn equal_classes_are_one_queue() {
    let hits = |classes: u64, settings: Option<Settings>| {
        let cache = silent(BUDGET);
        settings.inspect(|settings| cache.set_classes(settings));
        let mut numbers = Numbers(11);
        let mut hits = 0;
        for step in 0..200_000u64 {
            // Two in three reads go to a tenth of the chunks; the others pass by once.
            let n = match numbers.below(3) {
                0 => (1 << 30) + step,
                _ => numbers.below(8).min(numbers.below(20)) * 700 + numbers.below(700),
            };
            let class = IoClass((n % classes) as u8);
            let found = cache.by_content(&fingerprint(n), None, Use::Demand.of(class));
            hits += u64::from(found.is_some());
            if found.is_none() {
                cache.insert(
                    &fingerprint(n),
                    &content(n, 4096),
                    None,
                    Use::Demand.of(class),
                );
            }
        }
        hits
    };
    let untagged = hits(1, None);
    // Pinned class 63 has no chunks; it only makes the classes differ.
    let differing = settings(&[(IoClass(63), Priority::Pinned, 100)]);
    for (classes, settings) in [(1, None), (16, None), (16, Some(differing))] {
        let tagged = hits(classes, settings);
        let off = tagged.abs_diff(untagged);
        println!("{classes} classes: {tagged} hits, untagged {untagged}");
        assert!(off * 500 < untagged, "{tagged} beside {untagged}");
    }
}
