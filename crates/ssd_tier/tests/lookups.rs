//! Tests what is found, refused and counted.

use crate::world;

use classes::{ClassSettings, Priority, Share};
use format::tier::TierKind;
use ssd_tier::{CacheClass, Kind, KindShares, Offer, PoolKeys, TierSettings, TierState};
use units::{Fingerprint, IoClass, UnixNanos};
use world::{BLOCK_BYTES, World, chunk, options};

#[test]
fn a_chunk_is_found_staged_written_and_after_a_restart() {
    for is_sealed in [false, true] {
        let mut world = World::new(20, is_sealed);
        assert!(!world.has(1));
        assert_eq!(world.offer(1), Offer::Taken);
        assert_eq!(world.offer(1), Offer::Present);
        assert!(world.has(1) && world.disk.counts().written_bytes == 0);
        world.fill(1..=60);
        assert_eq!(world.count(1..=60), 60);
        assert!(!world.has(61));
        assert_eq!(world.offer(7), Offer::Present);
        world.reopen();
        assert_eq!(world.count(1..=60), 60);
        assert_eq!(world.tier.status().bytes_written, 0);
        world.fill(61..=80);
        world.reopen();
        assert_eq!(world.count(1..=80), 80, "blocks of three uses");
        let status = world.tier.status();
        assert_eq!((status.damaged, status.failed_reads), (0, 0));
    }
}

#[test]
fn what_is_stored_shows_no_byte_of_a_sealed_pool() {
    let found = |is_sealed| {
        let mut world = World::new(20, is_sealed);
        world.fill(1..=20);
        let bytes = world.disk.image().contents("tier").expect("the file");
        let piece = &chunk(5)[8..24];
        bytes.windows(16).any(|window| window == piece)
    };
    assert!(found(false) && !found(true));
}

#[test]
fn a_tier_before_its_first_step_is_closed_and_misses() {
    let disk = sim::SimDisk::new();
    let keys = world::Keys::new(1, true);
    let settings = TierSettings::new(KindShares::ALONE);
    let tier = world::tier_on(&disk, &keys, options(8), &settings, 1);
    assert_eq!(tier.status().state, TierState::Closed);
    let name = Fingerprint([3; 32]);
    assert!(tier.lookup(&name, Kind::Data).is_none());
    assert_eq!(tier.offer(&name, Kind::Data, IoClass(0), b"x"), Offer::Off);
    assert_eq!(disk.counts(), sim::OperationCounts::default(), "no I/O");
}

#[test]
fn forgotten_chunks_are_not_found() {
    let mut world = World::new(20, true);
    world.fill(1..=30);
    world.offer(31);
    for n in [3, 31] {
        world.tier.forget(&world.name(n));
        assert!(!world.has(n));
        assert!(!world.tier.contains(&world.name(n)));
    }
    world.flush();
    assert!(!world.has(31), "it was staged and is not written");
    assert_eq!(world.count(1..=31), 29);
    assert_eq!(world.offer(3), Offer::Taken);
}

/// A block of which most was replaced is the first to leave, whatever its class and however
/// recently it was used. Until then it stays.
#[test]
fn a_block_of_which_little_is_needed_makes_room_before_others() {
    let mut world = World::new(2, true);
    let full = |world: &World| world.tier.status().slots_full;
    let mut found = Vec::new();
    for n in 1.. {
        world.offer_as(n, Kind::Data, 0);
        found.push(n);
        world.settle();
        if full(&world) == 2 {
            break;
        }
    }
    let (&first, &last) = (found.first().expect("some"), found.last().expect("some"));
    let in_first = found.len() / 2;
    for n in found.iter().take(in_first).skip(1) {
        world.tier.forget(&world.name(*n));
        // Forgotten twice, it counts once.
        world.tier.forget(&world.name(*n));
    }
    world.settle();
    assert_eq!(full(&world), 2, "nothing needs its slot");
    assert!(world.has(first), "its other chunks are found until then");
    let fill_a_block = |world: &mut World, from: u64| {
        for n in from..from + in_first as u64 {
            world.offer(n);
        }
        world.flush();
    };
    fill_a_block(&mut world, last + 1);
    assert!(!world.has(first), "the first block has left");
    assert!(world.has(last), "the second is older, and stays");
    let status = world.tier.status();
    assert_eq!((status.slots_full, status.evictions), (2, 1));
}

/// Two blocks of which one and two thirds are needed: the longest unused leaves.
#[test]
fn a_block_of_which_most_is_needed_leaves_in_its_turn() {
    let mut world = World::new(2, true);
    world.fill(1..=9);
    world.flush();
    world.fill(11..=19);
    world.flush();
    for n in 11..=13 {
        world.tier.forget(&world.name(n));
    }
    assert!(world.has(14), "used last");
    world.fill(21..=29);
    world.flush();
    assert!(world.has(14) && !world.has(1));
}

/// The device still has what was forgotten. A chunk that was brought back is in two blocks then.
#[test]
fn after_a_restart_a_block_of_duplicates_leaves_first() {
    let mut world = World::new(2, true);
    world.fill(1..=8);
    world.flush();
    for n in 1..=4 {
        world.tier.forget(&world.name(n));
        assert_eq!(world.offer(n), Offer::Taken);
    }
    world.flush();
    world.reopen();
    world.settle();
    assert_eq!(world.tier.status().slots_full, 2);
    world.fill(11..=14);
    world.flush();
    assert_eq!(world.tier.status().evictions, 1);
    assert_eq!(world.count(1..=8), 8);
}

#[test]
fn directories_have_names_and_are_never_taken_for_chunks() {
    let mut world = World::new(20, true);
    let name = Fingerprint([9; 32]);
    let offered = world
        .tier
        .offer(&name, Kind::Directory, IoClass(4), b"directory");
    assert_eq!(offered, Offer::Taken);
    world.fill(1..=3);
    let found = |world: &World, kind| {
        let found = world.tier.lookup(&name, kind);
        found.map(|chunk| chunk.to_vec())
    };
    assert_eq!(found(&world, Kind::Directory), Some(b"directory".to_vec()));
    assert_eq!(found(&world, Kind::Data), None, "nobody verified it");
    assert_eq!(
        found(&world, Kind::Directory),
        None,
        "asked for as data, it went"
    );
    world.reopen();
    assert_eq!(found(&world, Kind::Directory), Some(b"directory".to_vec()));
    let directory = world.name(2);
    assert!(world.tier.lookup(&directory, Kind::Directory).is_none());
}

#[test]
fn a_recipe_node_may_be_the_same_bytes_as_data() {
    let mut world = World::new(20, true);
    world.offer_as(5, Kind::Recipe, 0);
    assert_eq!(world.offer_as(5, Kind::Data, 1), Offer::Present);
    world.flush();
    assert!(world.tier.lookup(&world.name(5), Kind::Recipe).is_some());
    assert!(world.has(5));
    let classes = world.tier.status().classes;
    assert_eq!(classes.len(), 1);
    assert_eq!(classes[0].class, CacheClass::new(Kind::Recipe, IoClass(0)));
    assert_eq!(classes[0].hits, 2);
}

#[test]
fn impossible_chunks_bypass_the_tier() {
    let world = World::new(20, true);
    let offer = |name: Fingerprint, bytes: &[u8]| {
        let offered = world.tier.offer(&name, Kind::Data, IoClass(0), bytes);
        assert_eq!(offered, Offer::Bypassed);
        assert!(world.tier.lookup(&name, Kind::Data).is_none());
    };
    offer(Fingerprint::HOLE, b"zeroes");
    offer(Fingerprint([1; 32]), b"");
    offer(Fingerprint([1; 32]), &vec![1; BLOCK_BYTES as usize]);
    offer(Fingerprint([1; 32]), &vec![1; (1 << 20) + 1]);
}

#[test]
fn a_class_without_a_share_bypasses_and_settings_can_change() {
    let mut world = World::new(20, true);
    let mut settings = TierSettings::new(KindShares::ALONE);
    let priority = Priority::Evictable(1);
    let share = Share::NONE;
    settings.set(IoClass(7), ClassSettings { priority, share });
    world.tier.set_settings(settings);
    assert_eq!(world.offer_as(1, Kind::Data, 7), Offer::Bypassed);
    assert_eq!(world.offer_as(1, Kind::Data, 8), Offer::Taken);
    let settings = TierSettings::new(KindShares {
        recipes: Share::NONE,
        ..KindShares::ALONE
    });
    world.tier.set_settings(settings);
    assert_eq!(world.offer_as(2, Kind::Data, 7), Offer::Taken);
    assert_eq!(world.offer_as(3, Kind::Recipe, 7), Offer::Bypassed);
    world.flush();
    let classes = world.tier.status().classes;
    let written: Vec<(u8, bool)> = classes
        .iter()
        .map(|class| (class.class.io.0, class.bytes_written > 0))
        .collect();
    assert_eq!(written, [(7, true), (8, true)]);
}

#[test]
fn the_least_important_class_makes_room() {
    let mut world = World::new(20, true);
    let mut settings = TierSettings::new(KindShares::ALONE);
    for (class, priority) in [(1, 10), (2, 200)] {
        let priority = Priority::Evictable(priority);
        let share = Share::ALL;
        settings.set(IoClass(class), ClassSettings { priority, share });
    }
    world.tier.set_settings(settings);
    // Fourteen blocks are the part of data. Class 1 alone fills half of it.
    for n in 1..=70 {
        world.offer_as(n, Kind::Data, 1);
        world.settle();
    }
    for n in 1000..1400 {
        world.offer_as(n, Kind::Data, 2);
        world.settle();
    }
    world.flush();
    assert_eq!(world.count(1..=70), 70, "the scan took nothing of it");
    for n in 71..=400 {
        world.offer_as(n, Kind::Data, 1);
        world.settle();
    }
    assert_eq!(world.count(1000..1400), 0);
    assert!(world.tier.status().evictions > 20);
}

#[test]
fn what_was_used_of_late_stays() {
    let mut world = World::new(20, true);
    world.fill(1..=10);
    for n in 1000..1400 {
        world.offer(n);
        world.settle();
        assert!(world.has(3), "{n}");
    }
    assert!(world.has(1), "it shares the block");
    assert!(!world.has(1000));
}

#[test]
fn writes_stay_within_three_capacities_a_day() {
    let mut options = options(40);
    options.daily_writes_hundredths = 300;
    let mut world = World::on(sim::SimDisk::new(), world::Keys::new(1, true), options);
    let capacity = options.capacity_bytes;
    let mut n = 0;
    for _ in 0..24 * 60 {
        for _ in 0..10 {
            n += 1;
            world.offer(n);
        }
        world.now += 59_000_000_000;
        world.step();
    }
    let written = world.tier.status().bytes_written;
    assert!(written <= 3 * capacity, "{written} of {capacity}");
    assert!(written * 10 > 3 * capacity * 8, "{written} of {capacity}");
    assert!(world.tier.status().refused > 0);
}

#[test]
fn memory_is_what_was_said() {
    let world = World::new(20, true);
    for n in 0..2000 {
        world.offer(n);
        let status = world.tier.status();
        assert!(status.staged_bytes <= 1 << 20, "a quarter of the memory");
    }
    let status = world.tier.status();
    assert!(
        status.memory_bytes <= world.options.memory_bytes,
        "{status:?}"
    );
    assert!(status.memory_bytes * 10 > world.options.memory_bytes * 9);
}

#[test]
fn opening_goes_by_steps_and_serves_meanwhile() {
    let mut world = World::new(40, true);
    world.fill(1..=100);
    let blocks = world.tier.status().slots_full;
    world.reopen();
    assert_eq!(world.tier.status().slots_full, blocks);
    let again = world::tier_on(&world.disk, &world.keys, world.options, &world.settings, 9);
    let locked = again.step(UnixNanos(0), 1);
    assert!(
        locked.notice.is_some_and(|n| n.contains("off")),
        "one at a time"
    );
    let (disk, keys, options, settings) = (
        world.disk.clone(),
        world.keys.clone(),
        world.options,
        world.settings.clone(),
    );
    drop(world);
    let tier = world::tier_on(&disk, &keys, options, &settings, 9);
    let mut found = Vec::new();
    for step in 1..=blocks {
        let before = disk.counts();
        assert!(tier.step(UnixNanos(1), 1).has_more);
        assert!(disk.counts().reads - before.reads <= 2, "{step}");
        let here = |n: &u64| tier.contains(&keys_name(&keys, *n));
        found.push((1..=100).filter(here).count());
    }
    assert!(
        found[0] > 0 && found.windows(2).all(|w| w[0] < w[1]),
        "{found:?}"
    );
    assert_eq!(found.last(), Some(&100));
}

fn keys_name(keys: &world::Keys, n: u64) -> Fingerprint {
    keys.fingerprint(&chunk(n))
}

#[test]
fn kinds_are_those_of_the_format() {
    assert_eq!(TierKind::ALL, [Kind::Data, Kind::Recipe, Kind::Directory]);
}

#[test]
fn more_is_wanted_while_there_is_room_and_it_can_be_written_soon() {
    let class = IoClass(0);
    let mut world = World::new(20, true);
    assert!(world.tier.wants_more(class));
    // Half of the room for chunks that wait belongs to those that were asked for.
    let mut n = 0;
    while world.tier.wants_more(class) {
        world.offer(n);
        n += 1;
    }
    let staged = world.tier.status().staged_bytes;
    assert!((500 << 10..600 << 10).contains(&staged), "{staged}");
    assert_eq!(world.offer(n), Offer::Taken, "who was asked for has room");
    world.flush();
    assert!(world.tier.wants_more(class));
    let mut settings = world.settings.clone();
    let (priority, share) = (Priority::Evictable(0), Share::NONE);
    settings.set(class, ClassSettings { priority, share });
    world.tier.set_settings(settings);
    assert!(!world.tier.wants_more(class), "the class bypasses the tier");
    assert!(world.tier.wants_more(IoClass(1)));
    world.disk.inject(sim::Fault::ReadOnly);
    for n in 1000..=1010 {
        assert_eq!(world.offer_as(n, Kind::Data, 1), Offer::Taken);
    }
    world.flush();
    assert!(!world.tier.wants_more(IoClass(1)), "it cannot be written");
}

#[test]
fn nothing_more_is_wanted_without_a_budget() {
    let mut options = options(20);
    options.daily_writes_hundredths = 0;
    let mut world = World::on(sim::SimDisk::new(), world::Keys::new(1, true), options);
    assert!(
        world.tier.wants_more(IoClass(0)),
        "one block, while it is empty"
    );
    world.fill(1..=200);
    assert!(world.tier.status().bytes_written > 0);
    assert!(!world.tier.wants_more(IoClass(0)));
}

#[test]
fn a_reader_beside_the_writer_finds_what_is_there_and_writes_nothing() {
    for is_sealed in [false, true] {
        let mut world = World::new(6, is_sealed);
        world.fill(1..=60);
        let written: Vec<u64> = (1..=60).filter(|n| world.has(*n)).collect();
        assert!(written.len() > 20, "{written:?}");
        let before = world.disk.image().contents("tier");
        let reading = options(6).reading();
        let reader = world::tier_on(&world.disk, &world.keys, reading, &world.settings, 9);
        while reader.step(UnixNanos(1), 1 << 20).has_more {}
        let found = |n: u64| {
            let fingerprint = world.keys.fingerprint(&chunk(n));
            let bytes = reader.lookup(&fingerprint, Kind::Data)?;
            assert_eq!(*bytes, *chunk(n), "chunk {n}");
            Some(())
        };
        assert!(written.iter().all(|n| found(*n).is_some()));
        let (other, bytes) = (world.keys.fingerprint(&chunk(900)), chunk(900));
        let offer = reader.offer(&other, Kind::Data, IoClass(0), &bytes);
        assert_eq!((offer, reader.wants_more(IoClass(0))), (Offer::Off, false));
        reader.step(UnixNanos(2), 1 << 20);
        reader.finish(UnixNanos(3));
        assert_eq!(world.disk.image().contents("tier"), before);
        // The writer replaces blocks: the reader finds right bytes or nothing.
        world.fill(100..=200);
        let still = written.iter().filter(|n| {
            let fingerprint = world.keys.fingerprint(&chunk(**n));
            let bytes = reader.lookup(&fingerprint, Kind::Data);
            bytes.is_some_and(|bytes| *bytes == *chunk(**n))
        });
        assert!(still.count() < written.len());
    }
}

#[test]
fn a_reader_makes_no_file() {
    let disk = sim::SimDisk::new();
    let keys = world::Keys::new(1, true);
    let settings = TierSettings::new(KindShares::ALONE);
    let tier = world::tier_on(&disk, &keys, options(8).reading(), &settings, 1);
    assert!(!tier.step(UnixNanos(1), 1 << 20).has_more);
    assert!(matches!(tier.status().state, TierState::Off { .. }));
    assert!(disk.image().contents("tier").is_none());
}
