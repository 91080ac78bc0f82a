//! The driver over a small store with a page cache. It does all work whatever it hears, cached work
//! first, with several tasks at once, across restarts, failures and rewrites, at a limited rate.

use crate::reading;
use crate::world;

use duet::{Access, Driver, DriverOptions, DriverStep, Mask, Scope, TaskProgress, Work};
use reading::{OBJECTS, PAGE_BYTES, PAGES, Reader, Store};
use std::rc::Rc;
use world::{Numbers, page};

fn driver(store: &Store, mask: Mask, options: DriverOptions, progress: TaskProgress) -> Driver {
    let space = duet::Space::Pages;
    let session = store.world.duet.register(space, Scope::Everything, mask, 0);
    Driver::new(session.expect("few sessions"), options, progress)
}

fn fresh(store: &Store) -> Driver {
    let options = DriverOptions::default();
    driver(store, Mask::EXISTS, options, TaskProgress::new(0))
}

fn step(driver: &mut Driver, task: &mut Reader, now_ns: u64) -> DriverStep<u64> {
    step_with(driver, task, now_ns, Access::Device)
}

fn step_with(
    driver: &mut Driver,
    task: &mut Reader,
    now_ns: u64,
    access: Access,
) -> DriverStep<u64> {
    let store = Rc::clone(&task.store);
    let step = driver.step(task, &store.world, now_ns, (4 * PAGE_BYTES, access));
    step.expect("an order without errors")
}

fn finish(driver: &mut Driver, task: &mut Reader) {
    let mut steps = 0;
    while step(driver, task, 0) != DriverStep::Finished {
        steps += 1;
        assert!(steps < 100_000, "it ends");
    }
}

fn sorted(mut order: Vec<u64>) -> Vec<u64> {
    order.sort();
    order
}

#[test]
fn all_is_done_once_whatever_is_reported() {
    // Tables of any size: with one item per shard, most items are lost.
    for (seed, items_max) in [(1, 1 << 20), (2, 64), (3, 1000)] {
        let store = Store::new(items_max, 300);
        let (mut driver, mut task) = (fresh(&store), Reader::new(&store));
        let mut numbers = Numbers(seed);
        while step(&mut driver, &mut task, 0) != DriverStep::Finished {
            for _ in 0..numbers.below(30) {
                store.read(page(numbers.below(OBJECTS + 5), numbers.below(PAGES)));
            }
        }
        assert_eq!(sorted(task.order), (0..OBJECTS).collect::<Vec<_>>());
        let status = driver.status(OBJECTS * PAGES);
        assert_eq!(status.counts.pages_done, OBJECTS * PAGES);
        let bytes = status.counts.bytes_read + status.counts.bytes_cached;
        assert_eq!(bytes, OBJECTS * PAGES * PAGE_BYTES);
    }
}

#[test]
fn the_most_cached_comes_first_then_the_own_order() {
    let store = Store::new(1 << 20, 1000);
    for (object, pages) in [(150, 3), (70, 9), (20, 9), (199, 1)] {
        (0..pages).for_each(|n| {
            store.read(page(object, n));
        });
    }
    let (mut driver, mut task) = (fresh(&store), Reader::new(&store));
    finish(&mut driver, &mut task);
    assert_eq!(task.order[..8], [20, 70, 150, 199, 0, 1, 2, 3]);
    assert_eq!(driver.status(0).counts.bytes_cached, 22 * PAGE_BYTES);
}

#[test]
fn what_is_in_memory_needs_no_device() {
    let store = Store::new(1 << 20, 1000);
    for (object, pages) in [(150, 3), (70, PAGES), (20, PAGES)] {
        (0..pages).for_each(|n| {
            store.read(page(object, n));
        });
    }
    let (mut driver, mut task) = (fresh(&store), Reader::new(&store));
    while step_with(&mut driver, &mut task, 0, Access::Memory) != DriverStep::NeedsDevice {}
    assert_eq!(task.order, [20, 70], "as a whole in memory");
    assert_eq!(driver.status(0).counts.bytes_read, 0);
    // With the device it begins the next unit, which it cannot finish without the device.
    assert!(
        matches!(step(&mut driver, &mut task, 0), DriverStep::Worked { work, .. } if work.object == 150)
    );
    (0..PAGES).for_each(|n| {
        store.read(page(9, n));
    });
    // A unit in progress goes first.
    while step_with(&mut driver, &mut task, 0, Access::Memory) != DriverStep::NeedsDevice {}
    assert_eq!(task.order.len(), 2);
    finish(&mut driver, &mut task);
    assert_eq!(task.order[..4], [20, 70, 150, 9]);
    assert_eq!(sorted(task.order.clone()), (0..OBJECTS).collect::<Vec<_>>());
    assert_eq!(
        step_with(&mut driver, &mut task, 0, Access::Memory),
        DriverStep::Finished
    );
}

/// Tasks in opposite orders, without coordination, with a cache of a twentieth of the data.
#[test]
fn three_tasks_share_their_reads() {
    let reads = |has_events: bool| {
        let store = Store::new(1 << 20, (OBJECTS * PAGES / 20) as usize);
        let mut runs: Vec<(Driver, Reader)> = (0..3)
            .map(|nth| {
                let mask = if has_events {
                    Mask::EXISTS
                } else {
                    Mask::FLUSHED
                };
                let options = DriverOptions::default();
                let driver = driver(&store, mask, options, TaskProgress::new(0));
                let mut task = Reader::new(&store);
                task.descends = nth == 1;
                (driver, task)
            })
            .collect();
        // The third begins late.
        (0..200).for_each(|_| {
            let (driver, task) = &mut runs[0];
            step(driver, task, 0);
        });
        let mut finished = 0;
        while finished < runs.len() {
            let steps = runs.iter_mut().map(|(driver, task)| step(driver, task, 0));
            finished = steps.filter(|s| *s == DriverStep::Finished).count();
        }
        store.device_reads.get()
    };
    let (with, without) = (reads(true), reads(false));
    assert!(
        without > OBJECTS * PAGES * 2,
        "{without} reads without events"
    );
    assert!(
        with * 100 <= without * 52,
        "{with} reads instead of {without}"
    );
}

#[test]
fn it_goes_on_after_a_restart() {
    for seed in 0..20 {
        let mut numbers = Numbers(seed);
        let store = Store::new(1 << 20, 100);
        let mut task = Reader::new(&store);
        let mut progress = TaskProgress::new(0);
        let mut begun = 0;
        let options = match seed % 2 {
            0 => DriverOptions::default(),
            _ => DriverOptions::nearly_in_order(),
        };
        loop {
            let mut driver = driver(&store, Mask::EXISTS, options, progress);
            let mut last = DriverStep::Looked;
            for _ in 0..numbers.below(200) {
                store.read(page(numbers.below(OBJECTS), numbers.below(PAGES)));
                last = step(&mut driver, &mut task, 0);
            }
            begun += u64::from(!task.at.is_empty());
            task.at.clear();
            let stored = driver.progress().encode(seed);
            progress = TaskProgress::decode(&stored, seed).expect("its own");
            if last == DriverStep::Finished {
                break;
            }
        }
        assert!(begun > 0, "it was interrupted in the middle of work");
        assert_eq!(sorted(task.order), (0..OBJECTS).collect::<Vec<_>>());
        assert_eq!(progress.counts.pages_done, OBJECTS * PAGES);
    }
}

#[test]
fn what_fails_is_skipped_and_tried_again() {
    let store = Store::new(1 << 20, 100);
    let (mut driver_, mut task) = (fresh(&store), Reader::new(&store));
    task.fails = [3, 77].into();
    (0..PAGES).for_each(|n| {
        store.read(page(77, n));
    });
    assert_eq!(
        step(&mut driver_, &mut task, 0),
        DriverStep::Failed {
            work: Work {
                object: 77,
                part: 0
            },
            error: 77
        }
    );
    finish(&mut driver_, &mut task);
    assert_eq!(driver_.status(0).failed, 2);
    assert_eq!(task.order.len() as u64, OBJECTS - 2);
    task.fails.clear();
    let (progress, options) = (driver_.progress(), DriverOptions::default());
    let mut next = driver(&store, Mask::EXISTS, options, progress);
    finish(&mut next, &mut task);
    assert_eq!(task.order[task.order.len() - 2..], [3, 77]);
    assert_eq!(next.status(0).failed, 0);
}

#[test]
fn what_is_written_is_done_again() {
    let store = Store::new(1 << 20, 4000);
    let mask = Mask::ADDED.and(Mask::DIRTIED).expect("events");
    let mut driver = driver(&store, mask, DriverOptions::default(), TaskProgress::new(0));
    let mut task = Reader::new(&store);
    task.is_scrub = true;
    while task.order.len() < 50 {
        step(&mut driver, &mut task, 0);
    }
    store.world.set_dirty(page(7, 1), true);
    // In the middle of this unit.
    step(&mut driver, &mut task, 0);
    store.world.set_dirty(page(50, 0), true);
    finish(&mut driver, &mut task);
    assert_eq!(task.order[OBJECTS as usize..], [7, 50]);
    store.world.set_dirty(page(9, 0), true);
    finish(&mut driver, &mut task);
    assert_eq!(task.order[OBJECTS as usize..], [7, 50, 9]);
    assert_eq!(driver.status(0).counts.pages_done, OBJECTS * PAGES);
}

#[test]
fn nearly_in_order_means_within_a_window() {
    let store = Store::new(1 << 20, 4000);
    for object in (0..OBJECTS).rev() {
        store.read(page(object, 1));
        // More pages of the last ones.
        (0..object % 7).for_each(|n| {
            store.read(page(object, n));
        });
    }
    let options = DriverOptions {
        lookahead: Some(10),
        ..DriverOptions::default()
    };
    let mut driver = driver(&store, Mask::EXISTS, options, TaskProgress::new(0));
    let mut task = Reader::new(&store);
    finish(&mut driver, &mut task);
    assert_eq!(sorted(task.order.clone()), (0..OBJECTS).collect::<Vec<_>>());
    assert_ne!(task.order, sorted(task.order.clone()), "cached ones first");
    for (nth, object) in task.order.iter().enumerate() {
        let behind = task.order[nth..].iter().min().expect("itself");
        assert!(*object < behind + 10, "{object} while {behind} waits");
    }
}

/// Units that are left for the end are done there in order, before and after a restart, and the
/// rest is contiguous.
#[test]
fn what_is_left_for_the_end_comes_last_and_survives_a_restart() {
    // Units that the first process has come to; the next one has nothing in memory.
    for (restarts_at, left) in [(3, 0), (100, 15), (OBJECTS as usize - 2, 16)] {
        let store = Store::new(1 << 20, 300);
        let (mut driver, mut task) = (fresh(&store), Reader::new(&store));
        let last: Vec<u64> = (40..50).chain(90..95).chain([OBJECTS - 1]).collect();
        task.last.extend(&last);
        while task.order.len() < restarts_at {
            step(&mut driver, &mut task, 0);
        }
        let bytes = driver.progress().encode(1);
        task.at.clear();
        task.last.clear();
        let progress = TaskProgress::decode(&bytes, 1).expect("a progress");
        drop(driver);
        let options = DriverOptions::default();
        let mut driver = self::driver(&store, Mask::ADDED, options, progress);
        while step(&mut driver, &mut task, 0) != DriverStep::Finished {}
        assert_eq!(sorted(task.order.clone()), (0..OBJECTS).collect::<Vec<_>>());
        let (rest, end) = task.order.split_at(OBJECTS as usize - left);
        assert_eq!(end, &last[..left], "restart after {restarts_at}");
        assert!(rest.is_sorted(), "{rest:?}");
    }
}

#[test]
fn it_pauses_keeps_its_rate_and_ends_on_request() {
    let store = Store::new(1 << 20, 10);
    let options = DriverOptions {
        bytes_per_s: Some(100 * PAGE_BYTES),
        ..DriverOptions::default()
    };
    let mut driver = driver(&store, Mask::EXISTS, options, TaskProgress::new(0));
    let mut task = Reader::new(&store);
    let mut now_ns = 0;
    while now_ns < 4_000_000_000 {
        if let DriverStep::Waiting { until_ns } = step(&mut driver, &mut task, now_ns) {
            assert!(until_ns > now_ns);
            now_ns = until_ns;
        }
    }
    let status = driver.status(OBJECTS * PAGES);
    let pages = status.counts.bytes_read / PAGE_BYTES;
    assert!((396..=410).contains(&pages), "{pages} pages in 4 s");
    let eta_s = status.eta_s.expect("it has a pace");
    assert!((15.0..17.5).contains(&eta_s), "{eta_s} s for 1600 pages");
    driver.pause();
    assert_eq!(step(&mut driver, &mut task, now_ns), DriverStep::Paused);
    assert!(driver.status(0).is_paused);
    driver.resume();
    driver.limit(None);
    let next = step(&mut driver, &mut task, now_ns);
    assert!(matches!(next, DriverStep::Worked { .. }));
    driver.cancel();
    assert_eq!(step(&mut driver, &mut task, now_ns), DriverStep::Cancelled);
    driver.resume();
    assert_eq!(step(&mut driver, &mut task, now_ns), DriverStep::Cancelled);
}
