//! Counts reads, writes and syncs of the device for each operation.

use crate::world;

use sim::OperationCounts;
use ssd_tier::{Kind, Offer};
use world::{BLOCK_BYTES, World, chunk};

fn difference(world: &World, before: OperationCounts) -> (u64, u64, u64) {
    let now = world.disk.counts();
    let syncs = now.file_syncs + now.dir_syncs;
    (now.reads - before.reads, now.writes - before.writes, syncs)
}

#[test]
fn a_miss_costs_no_io_and_a_hit_one_read_of_the_chunk() {
    let mut world = World::new(20, true);
    world.fill(1..=40);
    let before = world.disk.counts();
    assert_eq!(world.count(1000..1500), 0);
    assert_eq!(difference(&world, before), (0, 0, 0));
    for n in 1..=40 {
        let before = world.disk.counts();
        assert!(world.has(n));
        assert_eq!(difference(&world, before), (1, 0, 0));
        let read = world.disk.counts().read_bytes - before.read_bytes;
        let len = chunk(n).len() as u64;
        assert!(read >= len && read < len + 64, "{read} bytes for {len}");
    }
}

#[test]
fn offers_cost_no_io_and_a_block_one_write_without_a_sync() {
    let mut world = World::new(20, true);
    let before = world.disk.counts();
    let mut offered = 0;
    for n in 0.. {
        if offered > u64::from(BLOCK_BYTES) {
            break;
        }
        assert_eq!(world.offer(n), Offer::Taken);
        offered += chunk(n).len() as u64;
    }
    assert_eq!(difference(&world, before), (0, 0, 0));
    let stepped = world.step();
    assert_eq!(difference(&world, before), (0, 1, 0));
    let written = world.disk.counts().written_bytes;
    assert_eq!(stepped.bytes, written);
    assert!(written <= u64::from(BLOCK_BYTES) && written > u64::from(BLOCK_BYTES) * 8 / 10);
    assert_eq!(world.step().bytes, 0);
    assert_eq!(world.tier.status().bytes_written, written);
}

#[test]
fn a_duplicate_is_written_once() {
    let mut world = World::new(20, true);
    world.fill(1..=40);
    let written = world.disk.counts().written_bytes;
    for kind in [Kind::Data, Kind::Recipe] {
        for n in 1..=40 {
            assert_eq!(world.offer_as(n, kind, 3), Offer::Present);
        }
    }
    world.flush();
    assert_eq!(world.disk.counts().written_bytes, written);
}

#[test]
fn an_eviction_reads_nothing() {
    let mut world = World::new(20, true);
    world.fill(1..=300);
    let before = world.disk.counts();
    world.fill(301..=400);
    assert!(world.tier.status().evictions > 5);
    assert_eq!(difference(&world, before).0, 0);
}

#[test]
fn opening_an_empty_tier_reads_once_and_a_full_one_its_directories() {
    let mut world = World::new(20, true);
    assert_eq!(world.disk.counts().reads, 1);
    world.fill(1..=300);
    let blocks = world.tier.status().slots_full;
    let before = world.disk.counts();
    world.reopen();
    let (reads, writes, syncs) = difference(&world, before);
    assert!(reads <= 2 * blocks + 2, "{reads} reads for {blocks} blocks");
    assert_eq!((writes, syncs), (0, 0));
    let read = world.disk.counts().read_bytes - before.read_bytes;
    assert!(read <= 5000 * (blocks + 2), "{read} bytes");
}
