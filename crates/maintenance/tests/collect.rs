//! Garbage collection: what is deleted, what stays, and what it costs.
//!
//! Invariant: whatever was forgotten, used again or in progress, every snapshot restores and the
//! pool checks as sound.

use chunking::Compression;
use format::snapshot::{Snapshot, SnapshotKind};
use maintenance::{Collector, GcCounts, GcPolicy, GcStage};
use sim::SimDisk;
use sim::pool_histories::{check_all, finish_gc, for_any_gain};
use std::collections::BTreeSet;
use std::sync::Arc;
use store::{GcStep, NothingCached, OpenMode, Pool, StoreErrorKind};
use testkit::specimen::restore::Truth;
use testkit::specimen::{Specimen, new_pool, noise, options, put_image, snapshot, store_image};
use units::UnixNanos;

fn collector(pool: &Pool, policy: GcPolicy) -> Collector {
    Collector::new(pool, policy, options(Compression::Lz4)).expect("alone")
}

fn finish(pool: &Pool, collector: &mut Collector) -> GcCounts {
    finish_gc(pool, None, collector, 10_000).expect("step")
}

fn collect(pool: &Pool, policy: GcPolicy) -> GcCounts {
    finish(pool, &mut collector(pool, policy))
}

fn container_names(disk: &SimDisk) -> BTreeSet<String> {
    let files = disk.image().files_below("containers").into_iter();
    files.map(|(name, _)| name).collect()
}

fn containers(disk: &SimDisk) -> u64 {
    container_names(disk).len() as u64
}

/// Every snapshot restores, the pool checks as sound, and the counts are right.
fn is_sound(disk: &SimDisk, pool: &Pool, truths: &[Truth]) {
    let report = check_all(pool).expect("check");
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(pool.snapshots().expect("snapshots").len(), truths.len());
    for truth in truths {
        assert_eq!(truth.restore(pool).expect("as stored"), [].into());
    }
    assert_eq!(pool.record().containers, containers(disk));
    pool.space().expect("space");
}

/// A run that stops copying commits its copies, and the next one continues.
#[test]
fn a_run_that_runs_out_of_room_keeps_what_it_has_done() {
    let specimen = Specimen::new(7, true);
    let disk = specimen.disk();
    let pool = specimen.open(&disk, 1, OpenMode::Write).expect("open");
    let forgotten = specimen.truths[..3].iter().map(|t| t.snapshot.clone());
    pool.forget(&forgotten.collect::<Vec<_>>()).expect("forget");
    let mut first = collector(&pool, for_any_gain());
    while first.counts().copied_bytes == 0 {
        let step = first.step(&pool, None, &NothingCached, 1).expect("step");
        assert_eq!(step, GcStep::Working);
    }
    assert!(first.bytes_to_copy() > 0);
    first.copy_no_more();
    assert_eq!(first.bytes_to_copy(), 0);
    let copied = first.counts().copied_bytes;
    let first = {
        let counts = finish(&pool, &mut first);
        drop(first);
        counts
    };
    assert_eq!(first.copied_bytes, copied);
    assert!(first.discarded_containers > 0, "{first:?}");
    is_sound(&disk, &pool, &specimen.truths[3..]);
    let second = collect(&pool, for_any_gain());
    assert!(second.deleted_containers >= first.discarded_containers);
    assert!(second.copied_bytes > 0, "the rest");
    collect(&pool, for_any_gain());
    is_sound(&disk, &pool, &specimen.truths[3..]);
    assert_eq!(pool.space().expect("space").duplicate_bytes, 0);
}

#[test]
fn what_is_forgotten_becomes_space() {
    let specimen = Specimen::new(7, true);
    let disk = specimen.disk();
    let pool = specimen.open(&disk, 1, OpenMode::Write).expect("open");
    let before = pool.record().stored_bytes;
    let forgotten_ids: Vec<_> = specimen.truths[..3]
        .iter()
        .map(|t| t.snapshot.clone())
        .collect();
    pool.forget(&forgotten_ids).expect("forget");
    let first = collect(&pool, for_any_gain());
    assert_eq!(first.snapshots_purged, 3);
    assert!(
        first.discarded_containers > 3 && first.copied_chunks > 0,
        "{first:?}"
    );
    assert_eq!(first.deleted_containers, 0);
    assert!(pool.record().stored_bytes >= before, "nothing went yet");
    is_sound(&disk, &pool, &specimen.truths[3..]);
    let second = collect(&pool, for_any_gain());
    assert_eq!(second.deleted_containers, first.discarded_containers);
    assert!(pool.record().stored_bytes < before * 2 / 3);
    is_sound(&disk, &pool, &specimen.truths[3..]);
    assert_eq!(pool.space().expect("space").duplicate_bytes, 0);
    drop(pool);
    for mode in [OpenMode::Read, OpenMode::Write] {
        let pool = specimen.open(&disk, 2, mode).expect("open");
        assert!(
            pool.health().notes().is_empty(),
            "{:?}",
            pool.health().notes()
        );
        is_sound(&disk, &pool, &specimen.truths[3..]);
    }
    // Also without an index.
    media::Disk::remove(&*disk, "cache/fpi").expect("remove");
    let pool = specimen.open(&disk, 3, OpenMode::Read).expect("open");
    is_sound(&disk, &pool, &specimen.truths[3..]);
}

/// Deletion takes time where a file system discards blocks at once, so clients get I/O grants
/// between two containers. A run that ends there loses nothing.
#[test]
fn one_step_deletes_no_more_than_it_may() {
    let specimen = Specimen::new(7, true);
    let disk = specimen.disk();
    let pool = specimen.open(&disk, 1, OpenMode::Write).expect("open");
    let forgotten_ids = specimen.truths[..3].iter().map(|t| t.snapshot.clone());
    pool.forget(&forgotten_ids.collect::<Vec<_>>())
        .expect("forget");
    let discarded = collect(&pool, for_any_gain()).discarded_containers;
    assert!(discarded > 3);
    for is_last in [false, true] {
        let mut run = collector(&pool, for_any_gain());
        let mut deleted = 0;
        while run.stage() != GcStage::Choosing && (is_last || deleted < 2) {
            let before = container_names(&disk);
            run.step(&pool, None, &NothingCached, 1).expect("step");
            let forgotten_ids = before.difference(&container_names(&disk)).count() as u64;
            assert!(forgotten_ids <= 1, "{forgotten_ids} in one step");
            deleted += forgotten_ids;
        }
        assert_eq!(deleted, if is_last { discarded - 2 } else { 2 });
        if is_last {
            finish(&pool, &mut run);
        }
    }
    is_sound(&disk, &pool, &specimen.truths[3..]);
}

/// Garbage spread evenly over all containers is worth nothing in any of them, but it adds up.
#[test]
fn little_garbage_stays_however_it_is_spread() {
    let mut unused = Vec::new();
    for unused_percent_max in [0, 5, 100] {
        let (disk, pool) = new_pool();
        let all = noise(9, 4 << 20);
        let forgotten = store_image(&pool, "all", &all, Compression::None);
        let chunks = all.chunks(4096).enumerate();
        let most = chunks.filter(|(number, _)| number % 10 != 3);
        let most: Vec<u8> = most.flat_map(|(_, chunk)| chunk.to_vec()).collect();
        let needed = store_image(&pool, "most", &most, Compression::None);
        pool.forget(&[forgotten.snapshot]).expect("forget");
        let policy = GcPolicy {
            unused_percent_max,
            ..GcPolicy::with_trash_period(0)
        };
        collect(&pool, policy);
        let live = collect(&pool, policy).live_bytes;
        unused.push(pool.record().stored_bytes.saturating_sub(live) * 1000 / live);
        is_sound(&disk, &pool, &[needed]);
    }
    // Thousandths, with headers and directories. A ninth was forgotten.
    let [none, some, all] = unused[..] else {
        panic!("three policies")
    };
    assert!(all - none >= 100, "{unused:?}");
    assert!((25..=55).contains(&(some - none)), "{unused:?}");
}

#[test]
fn runs_come_to_rest() {
    let specimen = Specimen::new(8, false);
    let disk = specimen.disk();
    let pool = specimen.open(&disk, 1, OpenMode::Write).expect("open");
    let mut stored = Vec::new();
    for _ in 0..6 {
        collect(&pool, GcPolicy::with_trash_period(0));
        stored.push(pool.record().stored_bytes);
    }
    assert!(stored[5] <= stored[1] + (16 << 10), "{stored:?}");
    is_sound(&disk, &pool, &specimen.truths);
}

#[test]
fn nodes_are_read_once_whatever_the_snapshots() {
    let mut marked = Vec::new();
    for count in [1, 300] {
        let (_, pool) = new_pool();
        let bytes = noise(3, 3 << 20);
        let mut session = pool.begin(options(Compression::Lz4)).expect("begin");
        let root = put_image(&mut session, &bytes);
        let chunks = session.counts().chunks_new;
        let snapshots: Vec<_> = (0..count)
            .map(|n| snapshot(&pool, SnapshotKind::Image, &n.to_string(), root))
            .collect();
        pool.commit(session, &snapshots, &[]).expect("commit");
        let dry = GcPolicy {
            dry_run: true,
            ..for_any_gain()
        };
        let counts = collect(&pool, dry);
        // 768 chunks in four nodes of at most 256, a fifth above them, each once.
        assert_eq!(counts.nodes_read, 4, "{counts:?}");
        assert!(
            counts.mark_memory_bytes * 8 <= 2 * (chunks + 64 * counts.containers),
            "{counts:?}"
        );
        assert!(counts.live_chunks >= chunks);
        marked.push(counts.nodes_read);
    }
    assert_eq!(marked[0], marked[1]);
}

#[test]
fn bits_of_what_is_live_take_one_or_two_a_chunk() {
    let (_, pool) = new_pool();
    let bytes = noise(4, 24 << 20);
    let large = store::LaneOptions {
        container_bytes: 16 << 20,
        region_bytes: 128 << 10,
        compression: Compression::None,
    };
    let mut session = pool.begin(large).expect("begin");
    let root = put_image(&mut session, &bytes);
    let chunks = session.counts().chunks_new;
    let snapshot = snapshot(&pool, SnapshotKind::Image, "", root);
    pool.commit(session, &[snapshot], &[]).expect("commit");
    let counts = collect(&pool, for_any_gain());
    let bits = counts.mark_memory_bytes * 8;
    assert!(
        bits >= chunks && bits <= chunks + chunks / 10,
        "{bits} bits, {chunks} chunks"
    );
}

#[test]
fn a_session_that_began_before_loses_nothing() {
    let (disk, pool) = new_pool();
    let bytes = noise(1, 200_000);
    let kept = store_image(&pool, "kept", &noise(2, 100_000), Compression::None);
    let forgotten_ids = store_image(&pool, "gone", &bytes, Compression::None);
    let mut session = pool.begin(options(Compression::None)).expect("begin");
    let root = put_image(&mut session, &bytes);
    assert_eq!(session.counts().chunks_new, 0);
    pool_forget(
        &disk,
        &pool,
        &forgotten_ids.snapshot,
        session,
        root,
        &kept,
        bytes,
    );
}

/// A copy that gc made and later deleted protects nothing, though the process remembers its place:
/// the only copy of a chunk that is needed again is in the trash.
#[test]
fn a_copy_that_is_deleted_is_not_the_one_that_stays() {
    let (disk, pool) = new_pool();
    let bytes = noise(1, 200_000);
    let other = noise(3, 200_000);
    let kept = store_image(&pool, "kept", &noise(2, 100_000), Compression::None);
    // Copied by gc, then deleted.
    let both = [bytes.clone(), other].concat();
    let first = store_image(&pool, "both", &both, Compression::None);
    let second = store_image(&pool, "one", &bytes, Compression::None);
    for forgotten in [first.snapshot, second.snapshot] {
        pool.forget(&[forgotten]).expect("forget");
        for _ in 0..3 {
            collect(&pool, for_any_gain());
        }
    }
    // Stored again by a writer whose containers have smaller numbers, then needed again while in
    // the trash.
    let forgotten_ids = store_image(&pool, "gone", &bytes, Compression::None);
    let again = snapshot(
        &pool,
        SnapshotKind::Image,
        "again",
        forgotten_ids.snapshot.root,
    );
    let hold = pool.hold();
    pool.change_snapshots(&[], &[forgotten_ids.snapshot])
        .expect("remove");
    for _ in 0..2 {
        collect(&pool, for_any_gain());
    }
    pool.change_snapshots(std::slice::from_ref(&again), &[])
        .expect("by name");
    drop(hold);
    for _ in 0..3 {
        collect(&pool, for_any_gain());
    }
    is_sound(&disk, &pool, &[kept, Truth::of_bytes(again, bytes)]);
}

/// After a hold ends, a run that it blocked reports that another run is worthwhile.
#[test]
fn a_run_knows_when_another_one_would_give_back_more() {
    let (disk, pool) = new_pool();
    let forgotten_ids = store_image(&pool, "gone", &noise(21, 1 << 20), Compression::None);
    let kept = store_image(&pool, "kept", &noise(22, 1 << 20), Compression::None);
    let hold = pool.hold();
    pool.forget(&[forgotten_ids.snapshot]).expect("forget");
    let run = |hold: Option<store::Hold>| {
        let mut run = collector(&pool, for_any_gain());
        let counts = finish(&pool, &mut run);
        assert!(!run.is_worth_another(&pool), "nobody ended: {counts:?}");
        drop(hold);
        (counts, run.is_worth_another(&pool))
    };
    // The snapshot is not purged, and the trash stays.
    let (counts, is_worth_another) = run(Some(hold));
    assert_eq!((counts.snapshots_purged, is_worth_another), (0, true));
    let hold = pool.hold();
    let (counts, is_worth_another) = run(None);
    assert!(counts.snapshots_purged == 1 && counts.discarded_containers > 0);
    assert!(!is_worth_another, "{counts:?}");
    let (counts, is_worth_another) = run(Some(hold));
    assert_eq!((counts.deleted_containers, is_worth_another), (0, true));
    let (counts, is_worth_another) = run(None);
    assert!(counts.deleted_containers > 0 && !is_worth_another);
    is_sound(&disk, &pool, &[kept]);
}

/// Forgets a snapshot while a session is open that refers to the same chunks, collects, then
/// commits the session.
fn pool_forget(
    disk: &Arc<SimDisk>,
    pool: &Pool,
    forgotten_ids: &Snapshot,
    session: store::WriteSession,
    root: format::recipe::ObjectRoot,
    kept: &Truth,
    bytes: Vec<u8>,
) {
    // The one writer of short commits is busy. Removing the snapshot for good replaces a server's
    // other session.
    let again = snapshot(pool, SnapshotKind::Image, "again", root);
    pool.commit(session, &[], std::slice::from_ref(forgotten_ids))
        .expect("forget");
    // The commit ended the session's hold; a new hold protects what it saw.
    let hold = pool.hold();
    for _ in 0..4 {
        let counts = collect(pool, for_any_gain());
        assert_eq!(counts.deleted_containers, 0, "{counts:?}");
    }
    pool.change_snapshots(std::slice::from_ref(&again), &[])
        .expect("by name");
    drop(hold);
    for _ in 0..3 {
        collect(pool, for_any_gain());
    }
    let truths = [
        Truth::of_bytes(kept.snapshot.clone(), noise(2, 100_000)),
        Truth::of_bytes(again, bytes),
    ];
    is_sound(disk, pool, &truths);
}

/// The walk over the catalog pauses while the mark's queue is full, then continues to the end:
/// chunks of the last snapshots stay.
#[test]
fn a_catalog_of_many_snapshots_is_marked_to_its_end() {
    let (_, pool) = new_pool();
    let first = store_image(&pool, "first", &noise(1, 4096), Compression::None);
    let last = store_image(&pool, "last", &noise(2, 4096), Compression::None);
    let many: Vec<_> = (0..20_000)
        .map(|n| Snapshot {
            taken: UnixNanos(first.snapshot.taken.0 + n),
            ..snapshot(&pool, SnapshotKind::Image, "many", first.snapshot.root)
        })
        .collect();
    let end = Snapshot {
        taken: UnixNanos(first.snapshot.taken.0 + 20_000),
        ..snapshot(&pool, SnapshotKind::Image, "end", last.snapshot.root)
    };
    pool.forget(&[last.snapshot]).expect("forget");
    for some in many.chunks(500).chain([std::slice::from_ref(&end)]) {
        let session = pool.begin(options(Compression::None)).expect("begin");
        pool.commit(session, some, &[]).expect("commit");
    }
    for _ in 0..2 {
        collect(&pool, for_any_gain());
    }
    let end = Truth::of_bytes(end, noise(2, 4096));
    assert_eq!(end.restore(&pool).expect("as stored"), [].into());
}

#[test]
fn a_step_looks_up_no_more_than_it_is_for() {
    let (_, pool) = new_pool();
    store_image(&pool, "kept", &noise(2, 4_000_000), Compression::None);
    let mut run = collector(&pool, for_any_gain());
    let (mut marked, mut most) = (0, 0);
    while run.step(&pool, None, &NothingCached, 4096).expect("step") == GcStep::Working {
        let references = run.counts().references_followed;
        most = most.max(references - marked);
        marked = references;
    }
    assert!(marked > 900, "{marked} in all");
    assert!(most < 10, "{most} in a step for two of them");
}

#[test]
fn what_is_stored_again_while_it_is_collected_stays() {
    for stage in [
        GcStage::Marking,
        GcStage::Choosing,
        GcStage::Copying,
        GcStage::Done,
    ] {
        let (disk, pool) = new_pool();
        let bytes = noise(1, 200_000);
        let mut truths = vec![store_image(
            &pool,
            "kept",
            &noise(2, 90_000),
            Compression::None,
        )];
        let forgotten_ids = store_image(&pool, "gone", &bytes, Compression::None);
        pool.forget(&[forgotten_ids.snapshot]).expect("forget");
        let mut run = collector(&pool, for_any_gain());
        while run.stage() != stage {
            run.step(&pool, None, &NothingCached, 5000).expect("step");
        }
        truths.push(store_image(&pool, "again", &bytes, Compression::None));
        finish(&pool, &mut run);
        drop(run);
        is_sound(&disk, &pool, &truths);
        for _ in 0..3 {
            collect(&pool, for_any_gain());
            is_sound(&disk, &pool, &truths);
        }
        assert_eq!(pool.space().expect("space").duplicate_bytes, 0, "{stage:?}");
    }
}

#[test]
fn forgotten_snapshots_come_back_until_they_are_purged() {
    let (disk, pool) = new_pool();
    let truth = store_image(&pool, "one", &noise(1, 100_000), Compression::Lz4);
    pool.forget(std::slice::from_ref(&truth.snapshot))
        .expect("forget");
    assert!(pool.snapshots().expect("list").is_empty());
    // Forgetting twice changes nothing.
    pool.forget(std::slice::from_ref(&truth.snapshot))
        .expect("forget");
    assert_eq!(pool.record().catalog_entries, 0);
    let week = GcPolicy {
        live_percent_max: 100,
        unused_percent_max: 0,
        ..GcPolicy::default()
    };
    for _ in 0..3 {
        assert_eq!(collect(&pool, week).snapshots_purged, 0);
    }
    let (forgotten, _) = pool.trash().expect("trash");
    assert_eq!(forgotten.len(), 1);
    assert!(pool.space().expect("space").forgotten_bytes > 90_000);
    let back = pool.undelete(&[truth.snapshot.id]).expect("undelete");
    assert_eq!(back, std::slice::from_ref(&truth.snapshot));
    is_sound(&disk, &pool, std::slice::from_ref(&truth));
    let again = pool.undelete(&[truth.snapshot.id]);
    assert_eq!(again.unwrap_err().kind, StoreErrorKind::NotFound);
    pool.forget(std::slice::from_ref(&truth.snapshot))
        .expect("forget");
    assert_eq!(collect(&pool, for_any_gain()).snapshots_purged, 1);
    let forgotten_ids = pool.undelete(&[truth.snapshot.id]);
    assert_eq!(forgotten_ids.unwrap_err().kind, StoreErrorKind::NotFound);
}

/// A dry run does not count containers as trashed that it would delete from the trash.
#[test]
fn a_dry_run_counts_the_trash_once() {
    let (_, pool) = new_pool();
    store_image(&pool, "kept", &noise(1, 90_000), Compression::None);
    let forgotten_ids = store_image(&pool, "gone", &noise(2, 90_000), Compression::None);
    pool.forget(&[forgotten_ids.snapshot]).expect("forget");
    let trashed = collect(&pool, for_any_gain()).discarded_containers;
    let dry = GcPolicy {
        dry_run: true,
        ..for_any_gain()
    };
    let reported = collect(&pool, dry);
    assert!(trashed > 2);
    assert_eq!(reported.deleted_containers, trashed);
    // Commits leave old catalog nodes.
    assert!(reported.discarded_containers < 2, "{reported:?}");
    assert_eq!(
        reported.trash_containers, reported.discarded_containers,
        "{reported:?}"
    );
    assert_eq!(collect(&pool, for_any_gain()).deleted_containers, trashed);
}

#[test]
fn a_dry_run_changes_nothing_and_needs_no_lock() {
    let specimen = Specimen::new(9, true);
    let disk = specimen.disk();
    let pool = specimen.open(&disk, 1, OpenMode::Write).expect("open");
    pool.forget(&[specimen.truths[0].snapshot.clone()])
        .expect("forget");
    drop(pool);
    let files = disk.image().files();
    let pool = specimen.open(&disk, 1, OpenMode::Read).expect("open");
    let dry = GcPolicy {
        dry_run: true,
        ..for_any_gain()
    };
    let counts = collect(&pool, dry);
    assert!(
        counts.discarded_containers > 0 && counts.snapshots_purged == 1,
        "{counts:?}"
    );
    assert!(Collector::new(&pool, for_any_gain(), options(Compression::None)).is_err());
    assert!(disk.image().files() == files);
}

#[test]
fn damage_stops_it_before_anything_goes() {
    let (disk, pool) = new_pool();
    let kept = store_image(&pool, "kept", &noise(2, 90_000), Compression::None);
    let forgotten_ids = store_image(&pool, "gone", &noise(1, 90_000), Compression::None);
    pool.forget(&[forgotten_ids.snapshot]).expect("forget");
    drop(pool);
    let containers = disk.image().files_below("containers");
    let (name, _) = containers.first().expect("one");
    media::Disk::remove(&*disk, name).expect("remove");
    let pool = testkit::specimen::open(&disk, 5, None, OpenMode::Write).expect("open");
    let mut run = collector(&pool, for_any_gain());
    let failed = loop {
        match run.step(&pool, None, &NothingCached, 10_000) {
            Ok(GcStep::Working) => {}
            Ok(GcStep::Done) => panic!("collected a damaged pool"),
            Err(e) => break e,
        }
    };
    assert!(failed.is_corruption(), "{failed}");
    let now = disk.image().files();
    let is_there = |wanted: &str| now.iter().any(|(name, _)| name == wanted);
    let lost: Vec<_> = containers
        .iter()
        .filter(|(name, _)| !is_there(name))
        .collect();
    assert_eq!(lost.len(), 1, "{lost:?}");
    drop(run);
    // Forgetting the damaged snapshot lets gc continue.
    pool.forget(&[kept.snapshot]).expect("forget");
    collect(&pool, for_any_gain());
    assert!(collect(&pool, for_any_gain()).deleted_containers > 0);
}
