//! The damage matrix: whatever happens to the file or the device, a lookup returns the right bytes
//! or nothing, and the tier works again afterwards.

use crate::world;

use sim::{BadSectors, Damage, Fault, SimDisk};
use ssd_tier::{Kind, KindShares, Offer, Tier, TierSettings, TierState};
use std::sync::Arc;
use units::{IoClass, UnixNanos};
use world::{BLOCK_BYTES, Keys, NAME, World, options};

const CHUNKS: std::ops::RangeInclusive<u64> = 1..=80;

/// A world whose first blocks hold [`CHUNKS`].
fn filled(is_sealed: bool) -> World {
    let mut world = World::new(20, is_sealed);
    world.fill(CHUNKS);
    assert_eq!(world.count(CHUNKS), 80);
    world
}

/// After anything, new chunks are cached again.
#[track_caller]
fn works_again(world: &mut World) {
    world.disk.clear_faults();
    world.wait(24 * 3600);
    world.fill(5000..5040);
    assert_eq!(world.count(5000..5040), 40, "{:?}", world.tier.status());
    assert!(world.is_ready(), "{:?}", world.tier.status());
    world.reopen();
    assert_eq!(world.count(5000..5040), 40);
}

/// Damages the file, in mid-run or before it is opened again. Returns how many chunks were found
/// by then, and at the second attempt.
fn after(damage: &Damage, is_sealed: bool, reopens: bool) -> usize {
    let mut world = filled(is_sealed);
    world.disk.damage(NAME, damage).expect("the file");
    if reopens {
        world.reopen();
    }
    let first = world.count(CHUNKS);
    assert!(world.count(CHUNKS) <= first);
    works_again(&mut world);
    first
}

fn everywhere(damage: &Damage) -> Vec<usize> {
    let ways = [(false, false), (false, true), (true, false), (true, true)];
    let found = ways.map(|(is_sealed, reopens)| after(damage, is_sealed, reopens));
    found.to_vec()
}

#[test]
fn a_flipped_bit_costs_its_block_at_most() {
    let block = u64::from(BLOCK_BYTES) * 8;
    for bit in [
        0,                   // Magic.
        8 * 33,              // Sequence number.
        8 * 50,              // Salt.
        8 * 105,             // Trailer of the directory.
        8 * 125,             // Checksum.
        8 * 140,             // A fingerprint.
        block / 2,           // A chunk.
        block + 8 * 8000,    // Another block.
        2 * block + 8 * 160, // An offset.
    ] {
        for found in everywhere(&Damage::FlipBit(bit)) {
            assert!((55..=80).contains(&found), "bit {bit}: {found}");
        }
    }
}

#[test]
fn every_bit_of_a_small_block_is_checked() {
    let mut world = World::new(20, false);
    world.fill(1..=2);
    let whole = world.disk.image();
    let len = whole.contents(NAME).expect("the file").len() as u64;
    for byte in (0..len).filter(|byte| *byte < 300 || byte % 61 == 0) {
        let disk = SimDisk::on(whole.clone());
        let flip = Damage::FlipBit(byte * 8 + byte % 8);
        disk.damage(NAME, &flip).expect("the file");
        let damaged = World::on(disk, world.keys.clone(), world.options);
        damaged.count(1..=2);
    }
}

/// Only seal or checksum vouch for container directories.
#[test]
fn a_flipped_bit_in_a_container_directory_is_found() {
    for is_sealed in [false, true] {
        let mut world = World::new(20, is_sealed);
        let name = world.name(1);
        let offered = world
            .tier
            .offer(&name, Kind::Directory, IoClass(0), &[5; 900]);
        assert_eq!(offered, Offer::Taken);
        world.flush();
        let whole = world.disk.image();
        for byte in (184..1100).step_by(7) {
            let disk = SimDisk::on(whole.clone());
            let flip = Damage::FlipBit(byte * 8 + 3);
            disk.damage(NAME, &flip).expect("the file");
            let damaged = World::on(disk, world.keys.clone(), world.options);
            let found = damaged.tier.lookup(&name, Kind::Directory);
            assert!(found.is_none_or(|found| *found == [5; 900]), "{byte}");
        }
    }
}

/// A caller that offered other bytes than the fingerprint says.
#[test]
fn bytes_that_do_not_have_the_fingerprint_are_not_served_from_the_device() {
    let mut world = World::new(20, true);
    let name = world.name(1);
    world
        .tier
        .offer(&name, Kind::Data, IoClass(0), b"other bytes");
    world.flush();
    assert!(world.tier.lookup(&name, Kind::Data).is_none());
    assert_eq!(world.tier.status().damaged, 1);
}

#[test]
fn zeroes_and_garbage_cost_what_they_cover() {
    let len = u64::from(BLOCK_BYTES);
    let zero = Damage::Zero { offset: 0, len };
    let garbage = Damage::Overwrite {
        offset: len + 4096,
        bytes: vec![0xa5; 20_000],
    };
    for damage in [zero, garbage] {
        for found in everywhere(&damage) {
            assert!((55..80).contains(&found), "{damage:?}: {found}");
        }
    }
    let all = Damage::Zero {
        offset: 0,
        len: 100 * len,
    };
    assert_eq!(everywhere(&all), [0; 4]);
}

#[test]
fn a_truncated_file_costs_its_end() {
    for len in [
        0,
        1,
        100,
        4095,
        4096,
        60_000,
        u64::from(BLOCK_BYTES) * 3 + 5000,
    ] {
        for found in everywhere(&Damage::SetLen(len)) {
            let whole = len / u64::from(BLOCK_BYTES);
            let chunks = (whole as usize * 10, whole as usize * 20 + 20);
            assert!(found >= chunks.0 && found <= chunks.1, "{len}: {found}");
        }
    }
}

#[test]
fn a_foreign_file_is_not_believed_and_overwritten() {
    assert_eq!(everywhere(&Damage::Replace(vec![7; 500_000])), [0; 4]);
    let mut foreign = World::on(SimDisk::new(), Keys::new(2, true), options(20));
    foreign.fill(CHUNKS);
    let bytes = foreign.disk.image().contents(NAME).expect("the file");
    let damage = Damage::Replace(bytes);
    assert_eq!(everywhere(&damage), [0; 4], "of another pool");
}

/// A pool that is not sealed believes no sealed block, and the other way round.
#[test]
fn a_block_with_another_seal_is_not_believed() {
    for is_sealed in [false, true] {
        let mut other = filled(!is_sealed);
        other.flush();
        let disk = SimDisk::on(other.disk.image());
        drop(other);
        let world = World::on(disk, Keys::new(1, is_sealed), options(20));
        assert_eq!(world.count(CHUNKS), 0);
    }
}

#[test]
fn an_old_file_that_comes_back_is_right_or_missing() {
    for reopens in [false, true] {
        let mut world = filled(true);
        let old = world.disk.image().contents(NAME).expect("the file");
        world.fill(1000..1500);
        assert!(world.tier.status().evictions > 20);
        world.disk.damage(NAME, &Damage::Replace(old)).expect("it");
        if reopens {
            world.reopen();
            assert_eq!(world.count(CHUNKS), 80, "old and right");
        }
        world.count(CHUNKS);
        world.count(1000..1500);
        works_again(&mut world);
    }
}

/// One old block among newer ones, and blocks that exchanged their places.
#[test]
fn old_and_moved_blocks_are_refused() {
    for reopens in [false, true] {
        let mut world = filled(true);
        let bytes = world.disk.image().contents(NAME).expect("the file");
        let block = BLOCK_BYTES as usize;
        world.fill(1000..1400);
        for (from, to) in [(0, 0), (1, 4)] {
            let damage = Damage::Overwrite {
                offset: to * block as u64,
                bytes: bytes[from * block..(from + 1) * block].to_vec(),
            };
            world.disk.damage(NAME, &damage).expect("the file");
        }
        if reopens {
            world.reopen();
        }
        world.count(CHUNKS);
        world.count(1000..1400);
        works_again(&mut world);
    }
}

#[test]
fn a_deleted_file_is_made_again() {
    let mut world = filled(true);
    world.disk.damage(NAME, &Damage::Delete).expect("the file");
    assert_eq!(world.count(CHUNKS), 80, "the descriptor still has it");
    world.reopen();
    assert_eq!(world.count(CHUNKS), 0);
    works_again(&mut world);
}

#[test]
fn a_device_that_cannot_read_turns_the_tier_off_with_one_line() {
    for fault in [Fault::Read { after: 5 }, Fault::Missing] {
        let mut world = filled(true);
        world.disk.inject(fault);
        let found = world.count(CHUNKS);
        assert!(found <= 5, "{found}");
        let reads = world.disk.counts().reads;
        assert_eq!(world.count(CHUNKS), 0);
        assert_eq!(world.disk.counts().reads, reads, "nobody asks it again");
        assert_eq!(world.offer(900), Offer::Off);
        let mut lines = Vec::new();
        for _ in 0..3600 {
            lines.extend(world.step().notice);
        }
        assert!(lines.len() <= 9 && !lines.is_empty(), "{lines:?}");
        assert!(lines.iter().all(|line| line.contains("off")), "{lines:?}");
        let opens = world.disk.counts().opens;
        (0..3600).for_each(|_| drop(world.step()));
        assert!(world.disk.counts().opens - opens <= 3, "it backs off");
        let TierState::Off { reason } = world.tier.status().state else {
            panic!("{:?}", world.tier.status());
        };
        assert!(reason.contains("simulated failure"), "{reason}");
        world.disk.clear_faults();
        world.wait(3600);
        world.settle();
        assert!(world.is_ready());
        let found = world.count(CHUNKS);
        assert_eq!(found, 80, "it is warm again");
        works_again(&mut world);
    }
}

#[test]
fn a_bad_sector_costs_its_block_and_is_written_again() {
    let (disk, keys) = (SimDisk::new(), Keys::new(1, true));
    disk.plant(NAME, b"");
    let at = u64::from(BLOCK_BYTES) + 30_000;
    let bad = BadSectors::new(Arc::<SimDisk>::clone(&disk), NAME, at..at + 512);
    let settings = TierSettings::new(KindShares::ALONE);
    let random = Arc::new(media::SeededRandom::new(1));
    let (bad, pool) = (Arc::new(bad), Arc::new(keys.clone()));
    let tier = Tier::new(bad, NAME, pool, random, options(20), settings);
    let mut world = World::on(SimDisk::new(), keys, options(20));
    world.tier = tier;
    world.settle();
    world.fill(CHUNKS);
    let found = world.count(CHUNKS);
    assert!((60..80).contains(&found), "{found}");
    let status = world.tier.status();
    assert_eq!((status.failed_reads, status.state), (1, TierState::Ready));
    assert!((60..=found).contains(&world.count(CHUNKS)));
    world.fill(100..=110);
    assert_eq!(world.tier.status().slots_full, status.slots_full + 1);
}

#[test]
fn a_full_disk_stops_growth_and_not_the_tier() {
    let mut world = World::new(20, true);
    world
        .disk
        .inject(Fault::NoSpaceAfter(5 * u64::from(BLOCK_BYTES)));
    world.fill(1..=200);
    let status = world.tier.status();
    assert!((1..=3).contains(&status.failed_writes), "{status:?}");
    assert!(
        matches!(status.state, TierState::NotWritten { reason } if reason.contains("full")
        || reason.contains("space"))
    );
    assert!(world.count(1..=200) > 20);
    works_again(&mut world);

    let mut world = World::new(20, true);
    world.disk.set_capacity(Some(5 * u64::from(BLOCK_BYTES)));
    for n in 1..=400 {
        world.offer(n);
        world.wait(30);
    }
    let status = world.tier.status();
    assert!(status.failed_writes < 12, "{status:?}");
    assert!(status.evictions > 10, "{status:?}");
    assert!(world.count(350..=400) > 20, "it works in what it has");
}

#[test]
fn a_device_that_cannot_be_written_still_serves() {
    for fault in [Fault::ReadOnly, Fault::Write { after: 0 }] {
        let mut world = filled(true);
        world.disk.inject(fault);
        for n in 1000..1100 {
            world.offer(n);
            world.step();
        }
        assert_eq!(world.count(CHUNKS), 80);
        assert!(world.tier.status().failed_writes >= 1);
        assert!(world.tier.status().failed_writes <= 3);
        works_again(&mut world);
    }
}

#[test]
fn failures_while_opening_end_in_time() {
    let mut world = filled(true);
    world.disk.inject(Fault::Read { after: 4 });
    world.reopen();
    assert!(!world.is_ready());
    world.disk.clear_faults();
    world.disk.inject(Fault::Names { after: 0 });
    world.wait(3600);
    works_again(&mut world);
    let tier = &world.tier;
    assert!(tier.lookup(&world.name(4_000_000), Kind::Data).is_none());
}

/// The name is taken by a directory: the tier stays off.
#[test]
fn a_name_that_cannot_be_opened_is_no_error() {
    use media::Disk;
    let disk = SimDisk::new();
    disk.make_dir(NAME).expect("a directory");
    let world = World::on(disk, Keys::new(1, true), options(20));
    assert!(matches!(world.tier.status().state, TierState::Off { .. }));
    assert_eq!(world.count(1..9), 0);
    world.tier.step(UnixNanos(i64::MAX), 1);
    world.tier.step(UnixNanos(i64::MIN), 1);
}
