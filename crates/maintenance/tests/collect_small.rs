//! Thousands of small commits leave as many small containers. They are merged once there are enough
//! of them, and then no more.
//!
//! Invariant: everything restores whatever was merged, and a run after a merge copies nothing.

use chunking::Compression;
use maintenance::{Collector, GcCounts, GcPolicy, GcStage};
use sim::SimDisk;
use sim::pool_histories::{check_all, finish_gc};
use store::{LaneOptions, NothingCached, OpenMode, Pool};
use testkit::specimen::restore::Truth;
use testkit::specimen::{new_pool, noise, options, store_image};

const PAGE: usize = 4096;
/// A full container, bytes.
const FULL: usize = 2 << 20;

fn collector(pool: &Pool, policy: GcPolicy) -> Collector {
    let lane = LaneOptions {
        container_bytes: FULL,
        ..options(Compression::None)
    };
    Collector::new(pool, policy, lane).expect("alone")
}

fn finish(pool: &Pool, collector: &mut Collector) -> GcCounts {
    finish_gc(pool, None, collector, 100_000).expect("step")
}

/// Copies for 64 KiB of garbage, or for many small containers.
fn usual() -> GcPolicy {
    GcPolicy {
        gain_bytes_min: 64 << 10,
        ..GcPolicy::with_trash_period(0)
    }
}

fn collect(pool: &Pool, policy: GcPolicy) -> GcCounts {
    finish(pool, &mut collector(pool, policy))
}

/// Commits of a few pages each.
fn small_commits(pool: &Pool, numbers: std::ops::Range<u64>) -> Vec<Truth> {
    let one = |n: u64| {
        let bytes = noise(1000 + n, (1 + n as usize % 4) * PAGE);
        store_image(pool, &n.to_string(), &bytes, Compression::None)
    };
    numbers.map(one).collect()
}

fn is_sound(disk: &SimDisk, pool: &Pool, truths: &[Truth]) {
    let report = check_all(pool).expect("check");
    assert!(report.is_sound(), "{report:?}");
    for truth in truths {
        assert_eq!(truth.restore(pool).expect("as stored"), [].into());
    }
    let count = disk.image().files_below("containers").len();
    assert_eq!(pool.record().containers, count as u64);
}

#[test]
fn they_become_few_and_the_next_run_copies_nothing() {
    let (disk, pool) = new_pool();
    let truths = small_commits(&pool, 0..300);
    let before = pool.record();
    assert!(before.containers >= 600, "data and nodes of each commit");
    let dry = GcPolicy {
        dry_run: true,
        ..usual()
    };
    let would = collect(&pool, dry);
    let first = collect(&pool, usual());
    assert!(first.merged_containers >= 300, "{first:?}");
    assert_eq!(would.merged_containers, first.merged_containers);
    assert_eq!(would.copied_bytes, first.copied_bytes);
    // Each chunk once.
    assert!(first.copied_chunks <= first.live_chunks, "{first:?}");
    let second = collect(&pool, usual());
    assert_eq!(second.deleted_containers, first.discarded_containers);
    assert_eq!(second.copied_bytes, 0, "{second:?}");
    assert_eq!(second.discarded_containers, 0, "{second:?}");
    let after = pool.record();
    assert!(after.containers <= 20, "{} containers", after.containers);
    assert!(after.stored_bytes < before.stored_bytes);
    let third = collect(&pool, usual());
    assert_eq!((third.copied_bytes, third.discarded_containers), (0, 0));
    // Mark bits are for chunks again, not for containers.
    assert!(
        third.mark_memory_bytes * 8 <= 2 * third.live_chunks,
        "{third:?}"
    );
    is_sound(&disk, &pool, &truths);
    assert_eq!(pool.space().expect("space").duplicate_bytes, 0);
    drop(pool);
    let pool = testkit::specimen::open(&disk, 3, None, OpenMode::Read).expect("open");
    assert!(
        pool.health().notes().is_empty(),
        "{:?}",
        pool.health().notes()
    );
    is_sound(&disk, &pool, &truths);
}

/// A run every few commits, as if nightly.
#[test]
fn over_a_life_everything_is_copied_a_few_times() {
    let (disk, pool) = new_pool();
    let (mut truths, mut copied, mut most) = (Vec::new(), 0, 0);
    for night in 0..40 {
        truths.extend(small_commits(&pool, night * 10..(night + 1) * 10));
        copied += collect(&pool, usual()).copied_bytes;
        most = most.max(collect(&pool, usual()).containers);
    }
    let counts = collect(&pool, usual());
    // From 4 KiB to an eighth of 2 MiB, eight times as large each time: twice. Catalog nodes are
    // copied too while they live.
    assert!(copied <= 4 * counts.live_bytes, "{copied}: {counts:?}");
    assert!(copied >= counts.live_bytes / 2, "{copied}: {counts:?}");
    assert!(most <= 120, "{most} containers");
    is_sound(&disk, &pool, &truths);
}

#[test]
fn a_few_stay_and_a_limit_is_kept_to() {
    let (disk, pool) = new_pool();
    let mut truths = small_commits(&pool, 0..8);
    let counts = collect(&pool, usual());
    assert_eq!((counts.copied_bytes, counts.merged_containers), (0, 0));
    truths.extend(small_commits(&pool, 8..200));
    let never = GcPolicy {
        merge_ratio_min: 0,
        ..usual()
    };
    let counts = collect(&pool, never);
    assert_eq!(counts.merged_containers, 0, "{counts:?}");
    let mut merged = Vec::new();
    for _ in 0..30 {
        let limited = GcPolicy {
            copy_bytes_max: 300_000,
            ..usual()
        };
        let counts = collect(&pool, limited);
        assert!(counts.copied_bytes <= 300_000, "{counts:?}");
        merged.push(counts.merged_containers);
    }
    assert!(merged[0] > 16 && merged[1] > 0, "{merged:?}");
    assert_eq!(merged[25..], [0; 5], "{merged:?}");
    is_sound(&disk, &pool, &truths);
}

/// A writer that deduplicates against a small container during its merge loses nothing. New chunks
/// are not deduplicated against a container that is moved to the trash.
#[test]
fn writers_beside_a_merge_lose_nothing() {
    for stage in [GcStage::Choosing, GcStage::Copying, GcStage::Done] {
        let (disk, pool) = new_pool();
        let mut truths = small_commits(&pool, 0..60);
        let mut run = collector(&pool, usual());
        while run.stage() != stage {
            run.step(&pool, None, &NothingCached, 5000).expect("step");
        }
        let again: Vec<u8> = (0..60).flat_map(|n| noise(1000 + n, PAGE)).collect();
        truths.push(store_image(&pool, "again", &again, Compression::None));
        let merged = finish(&pool, &mut run).merged_containers;
        assert!(merged >= 60, "{merged}");
        drop(run);
        for _ in 0..3 {
            collect(&pool, usual());
            is_sound(&disk, &pool, &truths);
        }
    }
}
