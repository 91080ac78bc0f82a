//! Regions so large that another thread opens them while earlier ones are packed.
//!
//! Invariant: they are packed in order, each for its own container. Damage in one keeps that
//! container and no other.

use chunking::Compression;
use format::container::{HEADER_BYTES, REGION_HEADER_BYTES};
use maintenance::{Collector, GcCounts, GcStage};
use sim::pool_histories::{check_all, finish_gc, for_any_gain};
use sim::{Damage, SimDisk};
use std::sync::Arc;
use store::{LaneOptions, NothingCached, OpenMode, Pool};
use testkit::specimen::restore::Truth;
use testkit::specimen::{dense, new_pool, put_image, snapshot};

const CHUNK: usize = 4096;
const IN_REGION: usize = 64;
const REGIONS: usize = 12;
/// A container has a few regions.
const CONTAINER_BYTES: usize = 1 << 20;

fn options() -> LaneOptions {
    LaneOptions {
        compression: Compression::Zstd(1),
        region_bytes: IN_REGION * CHUNK,
        container_bytes: CONTAINER_BYTES,
    }
}

fn store_image(pool: &Pool, name: &str, bytes: &[u8]) -> Truth {
    let mut session = pool.begin(options()).expect("begin");
    let root = put_image(&mut session, bytes);
    let snapshot = snapshot(pool, format::snapshot::SnapshotKind::Image, name, root);
    pool.commit(session, std::slice::from_ref(&snapshot), &[])
        .expect("commit");
    Truth::of_bytes(snapshot, bytes.to_vec())
}

/// A pool in which every second region is completely live, and the others in part.
fn thinned() -> (Arc<SimDisk>, Pool, Truth) {
    let (disk, pool) = new_pool();
    let bytes = dense(11, REGIONS * IN_REGION * CHUNK);
    let all = store_image(&pool, "all", &bytes);
    let is_kept = |n: &usize| (n / IN_REGION).is_multiple_of(2) || n.is_multiple_of(3);
    let chunks = bytes.chunks(CHUNK).enumerate();
    let kept = chunks.filter(|(number, _)| is_kept(number));
    let kept: Vec<u8> = kept.flat_map(|(_, chunk)| chunk.to_vec()).collect();
    let kept = store_image(&pool, "kept", &kept);
    pool.forget(&[all.snapshot]).expect("forget");
    (disk, pool, kept)
}

fn collector(pool: &Pool) -> Collector {
    Collector::new(pool, for_any_gain(), options()).expect("alone")
}

fn finish(pool: &Pool, run: &mut Collector, budget_bytes: u64) -> GcCounts {
    finish_gc(pool, None, run, budget_bytes).expect("step")
}

fn check(pool: &Pool) -> bool {
    check_all(pool).expect("check").is_sound()
}

#[test]
fn large_regions_are_copied_whatever_a_step_may_do() {
    for budget_bytes in [1, 100 << 10, 1 << 30] {
        let (disk, pool, kept) = thinned();
        let first = finish(&pool, &mut collector(&pool), budget_bytes);
        let whole = (REGIONS / 2 * IN_REGION * CHUNK) as u64;
        assert!(first.as_stored_bytes >= whole, "{first:?}");
        assert!(first.copied_bytes >= whole * 4 / 3 - (CHUNK as u64 * 12));
        assert_eq!(first.kept_back_containers, 0, "{first:?}");
        let second = finish(&pool, &mut collector(&pool), budget_bytes);
        assert_eq!(second.deleted_containers, first.discarded_containers);
        assert!(check(&pool));
        assert_eq!(pool.space().expect("space").duplicate_bytes, 0);
        drop(pool);
        let pool = testkit::specimen::open(&disk, 9, None, OpenMode::Read).expect("open");
        assert_eq!(kept.restore(&pool).expect("as stored"), [].into());
    }
}

/// Regions that were read but not packed are abandoned with the rest.
#[test]
fn a_run_that_must_copy_no_more_packs_nothing_that_it_has_read() {
    let (_disk, pool, kept) = thinned();
    let mut run = collector(&pool);
    while run.counts().copied_bytes == 0 {
        run.step(&pool, None, &NothingCached, 1).expect("step");
    }
    assert_eq!(run.stage(), GcStage::Copying);
    let copied = run.counts().copied_bytes;
    run.copy_no_more();
    assert_eq!(run.bytes_to_copy(), 0);
    assert_eq!(finish(&pool, &mut run, 1).copied_bytes, copied);
    drop(run);
    for _ in 0..2 {
        finish(&pool, &mut collector(&pool), 1);
    }
    assert!(check(&pool));
    assert_eq!(kept.restore(&pool).expect("as stored"), [].into());
    assert_eq!(pool.space().expect("space").duplicate_bytes, 0);
}

/// The container of an unreadable region stays; later ones are collected.
#[test]
fn damage_keeps_its_container_and_no_other() {
    let (disk, pool, _) = thinned();
    let containers = disk.image().files_below("containers");
    let (name, _) = containers.into_iter().next().expect("a container");
    // The first region of the first container, which is copied last except for the regions after it
    // there.
    let damage = Damage::Overwrite {
        offset: (HEADER_BYTES + REGION_HEADER_BYTES + 100) as u64,
        bytes: vec![0x55; 16],
    };
    disk.damage(&name, &damage).expect("damage");
    let counts = finish(&pool, &mut collector(&pool), 100 << 10);
    assert_eq!(counts.kept_back_containers, 1, "{counts:?}");
    assert!(counts.discarded_containers > 1, "{counts:?}");
    finish(&pool, &mut collector(&pool), 100 << 10);
    assert!(disk.image().contents(&name).is_some(), "it stays");
    assert!(!check(&pool));
}
