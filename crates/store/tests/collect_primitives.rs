//! The primitives of garbage collection alone: what they refuse, whatever calls them.
//!
//! Invariant: no order of calls deletes, retires or copies without a permit and a finished mark.

use chunking::Compression;
use duet::Access;
use sim::SimDisk;
use std::sync::Arc;
use store::{
    CopyRound, Deletion, Expiry, GcPermit, GcStep, Mark, NothingCached, OpenMode, Pool, Retired,
    SnapshotExpiry, StoreErrorKind,
};
use testkit::specimen::{Specimen, media, new_pool, noise, options, store_image};
use units::ContainerId;

/// Creates a pool in which one image is forgotten and purged, and another one is needed.
fn purged() -> (Arc<SimDisk>, Pool, GcPermit) {
    let (disk, pool) = new_pool();
    store_image(&pool, "kept", &noise(1, 90_000), Compression::None);
    let forgotten = store_image(&pool, "gone", &noise(2, 90_000), Compression::None);
    pool.forget(&[forgotten.snapshot]).expect("forget");
    let permit = pool.gc_permit().expect("alone");
    let purged = pool.purge(&permit, &at_once(&pool)).expect("purge");
    assert_eq!(purged.snapshots, 1);
    (disk, pool, permit)
}

fn at_once(pool: &Pool) -> SnapshotExpiry {
    SnapshotExpiry::new(pool, 0, None).expect("minimum")
}

fn finished(pool: &Pool, mut mark: Mark) -> Mark {
    while mark.step(pool, 10_000).expect("step") == GcStep::Working {}
    mark
}

fn unneeded(pool: &Pool, mark: &Mark) -> Vec<ContainerId> {
    let mut found = Vec::new();
    mark.visit_containers(pool, &mut |container| {
        if container.usage.is_none() {
            found.push(container.id);
        }
        Ok(())
    })
    .expect("visit");
    found
}

fn is_refused<T>(result: Result<T, store::StoreError>) {
    assert_eq!(result.err().map(|e| e.kind), Some(StoreErrorKind::Invalid));
}

/// Puts unneeded containers into the trash. Returns them.
fn trash_unneeded(pool: &Pool, permit: &GcPermit) -> Vec<ContainerId> {
    let mark = finished(pool, Mark::begin(pool, None).expect("begin"));
    let unneeded = unneeded(pool, &mark);
    let mut retired = Retired::new(pool, permit, unneeded.iter().copied());
    let mut round =
        CopyRound::begin(pool, options(Compression::None), &mark, &unneeded).expect("begin");
    let mut step = || {
        round.step(
            pool,
            &mark,
            &mut retired,
            &NothingCached,
            (10_000, Access::Device),
        )
    };
    while step().expect("step") == Some(GcStep::Working) {}
    let trashed = round.commit(pool, &mut retired).expect("commit");
    assert_eq!(trashed.containers, unneeded);
    unneeded
}

#[test]
fn one_run_has_the_permit_at_a_time() {
    let specimen = Specimen::new(7, false);
    let disk = specimen.disk();
    let reader = specimen.open(&disk, 1, OpenMode::Read).expect("open");
    is_refused(reader.gc_permit());
    let pool = specimen.open(&disk, 2, OpenMode::Write).expect("open");
    let permit = pool.gc_permit().expect("alone");
    is_refused(pool.gc_permit());
    let retired = Retired::new(&pool, &permit, []);
    drop(permit);
    is_refused(pool.gc_permit());
    drop(retired);
    pool.gc_permit().expect("alone again");
}

#[test]
fn a_mark_that_is_not_finished_or_an_estimate_proves_nothing() {
    let (_disk, pool, permit) = purged();
    let trashed = trash_unneeded(&pool, &permit);
    assert!(!trashed.is_empty());
    let expiry = Expiry::new(0, None);
    let begun = Mark::begin(&pool, None).expect("begin");
    let estimate = Mark::estimate(&pool, None, &at_once(&pool)).expect("begin");
    for mark in [begun, finished(&pool, estimate)] {
        let deletable = mark.deletable(&pool, &expiry);
        is_refused(Deletion::begin(&pool, &permit, &mark, deletable));
        let lane = options(Compression::None);
        is_refused(CopyRound::begin(&pool, lane, &mark, &trashed));
    }
    let mut mark = finished(&pool, Mark::begin(&pool, None).expect("begin"));
    let deletable = mark.deletable(&pool, &expiry);
    let ids: Vec<_> = deletable.containers().iter().map(|t| t.entry.id).collect();
    assert_eq!(ids, trashed);
    let deletion = Deletion::begin(&pool, &permit, &mark, deletable);
    let mut deletion = deletion.expect("a finished one does");
    while deletion.step(&pool, &mut mark, 1).expect("step") == GcStep::Working {}
    assert_eq!(deletion.deleted().len(), trashed.len());
    assert!(mark.trash().is_empty());
}

/// Held containers and unexpired ones cannot be deleted.
#[test]
fn held_and_unexpired_containers_are_not_deletable() {
    let (_disk, pool, permit) = purged();
    let hold = pool.hold();
    let trashed = trash_unneeded(&pool, &permit);
    let mark = finished(&pool, Mark::begin(&pool, None).expect("begin"));
    let held = mark.deletable(&pool, &Expiry::new(0, None));
    assert!(held.containers().is_empty() && held.awaited().is_some());
    drop(hold);
    let mark = finished(&pool, Mark::begin(&pool, None).expect("begin"));
    let early = mark.deletable(&pool, &Expiry::new(i64::MAX, None));
    assert!(early.containers().is_empty() && early.awaited().is_none());
    let now = mark.deletable(&pool, &Expiry::new(0, None));
    assert_eq!(now.containers().len(), trashed.len());
}

/// A round copies a container that is not retired and leaves it where it is.
#[test]
fn what_is_not_retired_stays() {
    let (_disk, pool, permit) = purged();
    let mark = finished(&pool, Mark::begin(&pool, None).expect("begin"));
    let unneeded = unneeded(&pool, &mark);
    let mut none = Retired::new(&pool, &permit, []);
    let lane = options(Compression::None);
    let mut round = CopyRound::begin(&pool, lane, &mark, &unneeded).expect("begin");
    let mut step = || {
        round.step(
            &pool,
            &mark,
            &mut none,
            &NothingCached,
            (10_000, Access::Device),
        )
    };
    while step().expect("step") == Some(GcStep::Working) {}
    let trashed = round.commit(&pool, &mut none).expect("commit");
    assert!(trashed.containers.is_empty());
    assert!(pool.trash().expect("trash").1.is_empty());
}

/// Chunks come to a mark in the order of their fingerprints, which is random. With memory for a few
/// directories, it reads the directory of a container about once all the same.
#[test]
fn a_mark_reads_directories_once_for_each_container_not_for_each_chunk() {
    let (disk, pool) = new_pool();
    for seed in 0..60 {
        let image = noise(seed, 90_000);
        store_image(&pool, &seed.to_string(), &image, Compression::None);
    }
    drop(pool);
    let pool = Pool::open(media(&disk, 3), None, OpenMode::Write, 128 << 10).expect("open");
    let before = pool.lookup_counts().directory_reads;
    let mark = finished(&pool, Mark::begin(&pool, None).expect("begin"));
    let reads = pool.lookup_counts().directory_reads - before;
    let mut containers = 0;
    mark.visit_containers(&pool, &mut |_| {
        containers += 1;
        Ok(())
    })
    .expect("visit");
    let chunks = mark.summary().live_chunks;
    assert!(containers > 150 && chunks > 5 * containers, "{containers}");
    assert!(
        reads <= 2 * containers,
        "{reads} reads of directories for {containers} containers, {chunks} chunks"
    );
}
