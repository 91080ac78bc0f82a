//! Defects of the published code, and likely ones: empty records that stay, leftovers of ended
//! sessions, scans beside eviction, items that starve, memory without a limit. (One done bit for
//! 4096 inodes: `work.rs`.)

use crate::world;

use duet::{Duet, DuetOptions, Events, Mask, Page, Scope, Session, Space};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use world::{Numbers, Reported, World, drain, page};

fn register(world: &World, mask: Mask) -> Session {
    let session = world
        .duet
        .register(Space::Pages, Scope::Everything, mask, 0);
    session.expect("few sessions")
}

/// A session that has replayed and fetched everything.
fn settled(world: &World, mask: Mask) -> Session {
    let session = register(world, mask);
    drain(&session, world);
    session
}

#[test]
fn what_cancels_out_leaves_no_record() {
    let world = World::new(1 << 20);
    let sessions = [
        settled(&world, Mask::EXISTS),
        settled(&world, Mask::MODIFIED),
        settled(&world, Mask::EXISTS),
    ];
    let before = world.duet.memory_bytes();
    for n in 0..50_000 {
        world.add(page(n % 9, n));
        world.set_dirty(page(n % 9, n), true);
    }
    assert_eq!(world.duet.pending(), 50_000);
    for n in 0..50_000 {
        world.remove(page(n % 9, n));
    }
    assert_eq!(world.duet.pending(), 0);
    assert!(world.duet.memory_bytes() <= before + 64 * 4096);
    for session in &sessions {
        assert!(drain(session, &world).is_empty());
    }
}

#[test]
fn a_session_that_ends_leaves_nothing_to_the_next() {
    let world = World::new(1 << 20);
    let first = settled(&world, Mask::ADDED);
    let other = settled(&world, Mask::EXISTS);
    for n in 0..1000 {
        world.add(page(1, n));
    }
    drain(&other, &world);
    for n in 0..1000 {
        world.remove(page(1, n));
    }
    assert_eq!((first.pending(), other.pending()), (1000, 1000));
    drop(first);
    assert_eq!(world.duet.pending(), 1000, "those of the other session");
    let next = settled(&world, Mask::ADDED);
    assert_eq!(next.pending(), 0);
    drop(other);
    assert_eq!(world.duet.pending(), 0);
    drop(next);
    // Without sessions nothing is kept.
    world.add(page(1, 1));
    assert_eq!(world.duet.pending(), 0);
}

#[test]
fn there_is_an_end_to_sessions() {
    let world = World::new(1000);
    let mut sessions: Vec<Session> = (0..Duet::SESSIONS_MAX)
        .map(|_| settled(&world, Mask::EXISTS))
        .collect();
    let register = || {
        let scope = Scope::Everything;
        world.duet.register(Space::Pages, scope, Mask::EXISTS, 0)
    };
    assert!(register().is_err());
    world.add(page(1, 1));
    sessions.swap_remove(3);
    assert!(register().is_ok());
    for session in &sessions {
        assert_eq!(drain(session, &world).len(), 1);
    }
}

/// Other threads add and remove pages while sessions register, replay and end.
#[test]
fn scans_and_eviction_do_not_disturb_each_other() {
    let (world, stop) = (&World::new(1 << 20), &AtomicBool::new(false));
    let done = &AtomicU64::new(0);
    std::thread::scope(|scope| {
        let change = |thread| {
            scope.spawn(move || {
                let mut numbers = Numbers(thread);
                while !stop.load(Ordering::Relaxed) {
                    let page = page(numbers.below(3), numbers.below(60));
                    match numbers.below(4) {
                        0 | 1 => world.add(page),
                        2 => world.remove(page),
                        _ => world.set_dirty(page, numbers.below(2) == 0),
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let changing: Vec<_> = (0..3).map(change).collect();
        let mask = Mask::EXISTS.and(Mask::MODIFIED).expect("two pairs");
        let hear = |session: &Session, reported: &mut Reported, rounds: u64| {
            let mut items = Vec::new();
            for _ in 0..rounds {
                session.fetch(world, 16, &mut items);
                items.drain(..).for_each(|item| {
                    reported.hear(&item);
                });
            }
        };
        let lasting = (register(world, mask), &mut Reported::default());
        let mut last = None;
        for round in 0..60 {
            let (session, mut reported) = (register(world, mask), Reported::default());
            hear(&session, &mut reported, 20 + round);
            hear(&lasting.0, lasting.1, 5);
            last = Some((session, reported));
        }
        while done.load(Ordering::Relaxed) < 20_000 {
            hear(&lasting.0, lasting.1, 5);
        }
        stop.store(true, Ordering::Relaxed);
        for thread in changing {
            thread.join().expect("no panic");
        }
        let (session, mut reported) = last.expect("rounds");
        for (session, reported) in [(&session, &mut reported), (&lasting.0, lasting.1)] {
            for item in drain(session, world) {
                reported.hear(&item);
            }
            assert_eq!(
                (reported.cached.clone(), reported.dirty.clone()),
                world.now()
            );
        }
    });
}

#[test]
fn no_item_starves() {
    let world = World::new(1 << 20);
    let (session, other) = (settled(&world, Mask::EXISTS), settled(&world, Mask::EXISTS));
    (0..500).for_each(|n| world.add(page(1, n)));
    let victims: Vec<Page> = (0..50).map(|n| page(2, n)).collect();
    victims.iter().for_each(|p| world.add(*p));
    let mut waiting: BTreeSet<Page> = victims.into_iter().collect();
    let (mut items, mut steps) = (Vec::new(), 0);
    // Four more come for each delivered item; others leave, so that records move.
    while !waiting.is_empty() {
        steps += 1;
        assert!(steps < 20_000, "{} still wait", waiting.len());
        (0..4).for_each(|n| world.add(page(3, 4 * steps + n)));
        world.remove(page(3, steps));
        session.fetch(&world, 1, &mut items);
        other.fetch(&world, 3, &mut Vec::new());
        for item in items.drain(..) {
            waiting.remove(&item.page);
        }
    }
}

#[test]
fn memory_has_a_limit_and_losses_are_reported() {
    let world = World::new(6400);
    let (slow, quick) = (settled(&world, Mask::EXISTS), settled(&world, Mask::EXISTS));
    let mut reported = Reported::default();
    let hear = |reported: &mut Reported, items: Vec<duet::Item>| {
        items.iter().for_each(|item| {
            reported.hear(item);
        });
    };
    for n in 0..60_000 {
        world.add(page(1, n));
        if n % 50 == 0 {
            hear(&mut reported, drain(&quick, &world));
        }
    }
    assert!(world.duet.pending() <= 6400);
    assert!(world.duet.memory_bytes() <= 64 * 6400 + 64 * 4096);
    assert_eq!(quick.lost(), 0, "a session that fetches loses nothing");
    let pending = slow.pending() as u64;
    assert_eq!(slow.lost() + pending, 60_000);
    for n in 0..59_000 {
        world.remove(page(1, n));
        if n % 50 == 0 {
            hear(&mut reported, drain(&quick, &world));
        }
    }
    hear(&mut reported, drain(&quick, &world));
    assert_eq!(reported.cached, world.now().0);
    slow.resync();
    let mut reported = Reported::default();
    hear(&mut reported, drain(&slow, &world));
    assert_eq!(slow.lost(), 0);
    assert_eq!(reported.cached, world.now().0);
}

/// Sessions of other spaces neither get an event nor cost memory.
#[test]
fn spaces_are_apart() {
    let duet = Duet::new(DuetOptions {
        items_max: 1000,
        seed: 1,
    });
    let world = World::new(1);
    let scope = || Scope::Range(5..=9);
    let containers = duet.register(Space::Containers, scope(), Mask::ADDED, 0);
    let chunks = duet.register(Space::Chunks, scope(), Mask::ADDED, 0);
    let of = |space| Page {
        space,
        ..page(7, 1)
    };
    duet.record(&of(Space::Pages), Events::ADDED);
    assert_eq!(duet.pending(), 0);
    duet.record(&of(Space::Chunks), Events::ADDED);
    duet.record(&of(Space::Containers), Events::REMOVED);
    assert_eq!(duet.pending(), 1);
    let items = |session: duet::Session| drain(&session, &world);
    assert_eq!(items(chunks.expect("few"))[0].page, of(Space::Chunks));
    assert!(items(containers.expect("few")).is_empty());
}
