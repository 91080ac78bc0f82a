//! Random histories against a model: what was ever offered, and what must be here.
//!
//! The model is small: a chunk that is found has its bytes. Without pressure every chunk that was
//! taken is found.

use crate::world;

use classes::{ClassSettings, Priority, Share};
use sim::{Fault, Seed, SimDisk};
use ssd_tier::{CacheClass, Kind, KindShares, Offer, TierSettings, TierState};
use std::collections::{BTreeSet, HashSet};
use units::IoClass;
use world::{Keys, World, options};

fn random_settings(seed: &mut Seed) -> TierSettings {
    let share = |n| Share::from_hundredths(n).expect("a share");
    let kinds = match seed.below(3) {
        0 => KindShares::ALONE,
        1 => KindShares {
            data: share(35),
            recipes: share(10),
            directories: share(5),
        },
        _ => KindShares {
            data: share(50),
            recipes: share(0),
            directories: share(20),
        },
    };
    let mut settings = TierSettings::new(kinds);
    for class in 0..4 {
        let priority = match seed.below(4) {
            0 => Priority::Pinned,
            n => Priority::Evictable(60 * n as u8),
        };
        let share = share(seed.below(101) as u8);
        settings.set(IoClass(class), ClassSettings { priority, share });
    }
    settings
}

/// The shares of classes hold at every moment at which they did not just change.
fn check_shares(world: &World, settings: &TierSettings, pinned_before: u64) {
    let status = world.tier.status();
    assert!(status.slots_full <= status.slots);
    assert!(status.staged_bytes <= world.options.memory_bytes / 4 + 10_000);
    let blocks = |class| {
        let class = CacheClass::new(Kind::Data, IoClass(class));
        world.tier.blocks_of(class).expect("nobody steps")
    };
    let pinned = (0..4).filter(|n| {
        let class = CacheClass::new(Kind::Data, IoClass(*n));
        settings.of(class).priority == Priority::Pinned
    });
    let pinned: u64 = pinned.map(blocks).sum();
    assert!(pinned >= pinned_before, "pinned blocks went");
}

#[test]
fn random_histories_are_right_or_miss() {
    for round in 0..24 {
        let mut seed = Seed::new(round);
        let blocks = 8 + seed.below(30);
        let keys = Keys::new(1, round % 2 == 0);
        let mut world = World::on(SimDisk::new(), keys, options(blocks));
        let mut offered = HashSet::new();
        for _ in 0..1500 {
            let n = seed.below(400);
            match seed.below(100) {
                0..=44 => {
                    let kind = match seed.below(5) {
                        0 => Kind::Recipe,
                        _ => Kind::Data,
                    };
                    let answer = world.offer_as(n, kind, seed.below(4) as u8);
                    if answer == Offer::Taken {
                        offered.insert(n);
                        assert!(world.has(n));
                    }
                    assert!(answer != Offer::Present || offered.contains(&n));
                }
                45..=79 => assert!(!world.has(n) || offered.contains(&n)),
                80..=89 => drop(world.step()),
                90..=91 => world.flush(),
                92..=93 => {
                    world.tier.forget(&world.name(n));
                    assert!(!world.has(n));
                }
                94 => world.reopen(),
                95..=96 => {
                    let settings = random_settings(&mut seed);
                    world.tier.set_settings(settings.clone());
                    world.settings = settings;
                }
                97 => {
                    let faults = [
                        Fault::Missing,
                        Fault::Read { after: 3 },
                        Fault::Write { after: 1 },
                        Fault::ReadOnly,
                        Fault::NoSpaceAfter(100_000),
                    ];
                    world.disk.inject(faults[seed.below(5) as usize]);
                }
                98 => world.disk.clear_faults(),
                _ => world.wait(60),
            }
            check_shares(&world, &world.settings, 0);
        }
        world.disk.clear_faults();
        world.wait(48 * 3600);
        assert_eq!(world.tier.status().state, TierState::Ready);
    }
}

/// Without pressure nothing is lost, whatever the order.
#[test]
fn without_pressure_everything_stays() {
    for round in 100..106 {
        let mut seed = Seed::new(round);
        let mut world = World::on(SimDisk::new(), Keys::new(1, true), options(120));
        let mut here = BTreeSet::new();
        for _ in 0..600 {
            let n = seed.below(300);
            match seed.below(10) {
                0..=5 => match world.offer_as(n, Kind::Data, seed.below(3) as u8) {
                    Offer::Taken => assert!(here.insert(n)),
                    Offer::Present => assert!(here.contains(&n)),
                    other => panic!("{other:?}"),
                },
                6 => {
                    world.tier.forget(&world.name(n));
                    here.remove(&n);
                }
                7 if seed.below(10) == 0 => {
                    world.flush();
                    // A forgotten chunk may come back.
                    let back = |n: &u64| here.contains(n);
                    let kept: Vec<u64> = (0..300).filter(back).collect();
                    world.reopen();
                    assert_eq!(world.count(kept.iter().copied()), kept.len());
                    here = (0..300).filter(|n| world.has(*n)).collect();
                }
                _ => drop(world.step()),
            }
            assert_eq!(world.has(n), here.contains(&n), "chunk {n}");
        }
        let found: BTreeSet<u64> = (0..300).filter(|n| world.has(*n)).collect();
        assert_eq!(found, here);
        let status = world.tier.status();
        assert_eq!(
            (status.damaged, status.evictions, status.refused),
            (0, 0, 0)
        );
    }
}

/// Pinned blocks survive any load of other classes.
#[test]
fn pinned_blocks_survive_other_classes() {
    let mut world = World::on(SimDisk::new(), Keys::new(1, true), options(20));
    let mut settings = TierSettings::new(KindShares::ALONE);
    let share = Share::from_hundredths(50).expect("a share");
    let priority = Priority::Pinned;
    settings.set(IoClass(1), ClassSettings { priority, share });
    world.tier.set_settings(settings.clone());
    for n in 0..50 {
        world.offer_as(n, Kind::Data, 1);
        world.settle();
    }
    world.flush();
    let class = CacheClass::new(Kind::Data, IoClass(1));
    let pinned = world.tier.blocks_of(class).expect("nobody steps");
    assert!(pinned > 2);
    for n in 1000..1600 {
        world.offer_as(n, Kind::Data, 2);
        world.settle();
        check_shares(&world, &settings, pinned);
    }
    assert_eq!(world.count(0..50), 50);
}
