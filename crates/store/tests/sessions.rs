//! Sessions of one process, one after another: committed, abandoned, dropped, failed.
//!
//! Invariant: whatever a session left, the next one loses nothing and stores nothing twice.

use chunking::Compression;
use sim::pool_histories::check_all;
use sim::{Damage, Fault, Image, SimDisk};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::Mutex;
use store::{InitOptions, OpenMode, Pool, StoreErrorKind, Watch, WriteSession};
use testkit::specimen::{noise, options, put_image, snapshot};

fn pool(disk: &Arc<SimDisk>) -> Pool {
    let init = InitOptions {
        secrets: &[],
        chunk_bytes_average: 4096,
        parity_percent: 0,
    };
    Pool::init(&testkit::specimen::media(disk, 1), &init).expect("init");
    testkit::specimen::open(disk, 2, None, OpenMode::Write).expect("open")
}

fn begin(pool: &Pool) -> WriteSession {
    pool.begin(options(Compression::None)).expect("begin")
}

/// Commits an image. Returns how many of its chunks were new.
fn commit(pool: &Pool, mut session: WriteSession, bytes: &[u8]) -> u64 {
    let root = put_image(&mut session, bytes);
    let new = session.counts().chunks_new;
    let snapshot = snapshot(pool, format::snapshot::SnapshotKind::Image, "", root);
    pool.commit(session, &[snapshot], &[]).expect("commit");
    new
}

/// Asserts that everything restores and passes check, also in the next process, and that nothing is
/// stored twice.
fn is_sound(disk: &Arc<SimDisk>, pool: Pool, images: &[&[u8]]) {
    drop(pool);
    let pool = testkit::specimen::open(disk, 3, None, OpenMode::Read).expect("open");
    let report = check_all(&pool).expect("check");
    assert!(report.is_sound(), "{report:?}");
    let snapshots = pool.snapshots().expect("snapshots");
    assert_eq!(snapshots.len(), images.len());
    for (snapshot, bytes) in snapshots.iter().zip(images) {
        let read = pool.reader().read_whole(&snapshot.root, 1 << 30);
        assert!(read.expect("read") == *bytes);
    }
    assert_eq!(pool.space().expect("space").duplicate_bytes, 0);
}

#[test]
fn a_session_after_an_abandoned_one_reuses_what_it_stored() {
    let disk = SimDisk::unrecorded(Image::new());
    let pool = pool(&disk);
    let bytes = noise(1, 100_000);
    let mut session = begin(&pool);
    put_image(&mut session, &bytes);
    session.abandon().expect("abandon");
    assert_eq!(commit(&pool, begin(&pool), &bytes), 0);
    let other = noise(2, 100_000);
    assert!(commit(&pool, begin(&pool), &other) > 0);
    is_sound(&disk, pool, &[&bytes, &other]);
}

#[test]
fn a_session_after_a_dropped_one_stores_what_was_only_claimed() {
    let disk = SimDisk::unrecorded(Image::new());
    let pool = pool(&disk);
    let bytes = noise(1, 100_000);
    let mut session = begin(&pool);
    put_image(&mut session, &bytes);
    let stored = session.counts().containers;
    assert!(stored > 0);
    drop(session);
    let new = commit(&pool, begin(&pool), &bytes);
    assert!(new > 0 && new < 26, "{new} of 26 with {stored} containers");
    is_sound(&disk, pool, &[&bytes]);
}

#[test]
fn a_session_after_a_full_disk_finishes_the_work() {
    let bytes = noise(1, 100_000);
    let mut failures = 0;
    for room in (0..140_000).step_by(3000) {
        let disk = SimDisk::unrecorded(Image::new());
        let pool = pool(&disk);
        let mut session = begin(&pool);
        disk.inject(Fault::NoSpaceAfter(room));
        let lane = session.main();
        let stored = lane.store_object(&bytes, false);
        let done = stored.map(|root| {
            let kind = format::snapshot::SnapshotKind::Stream;
            snapshot(&pool, kind, "full", root)
        });
        let done = done.and_then(|snapshot| pool.commit(session, &[snapshot], &[]));
        disk.clear_faults();
        let mut images: Vec<&[u8]> = Vec::new();
        match done {
            Ok(_) => images.push(&bytes),
            Err(e) => {
                let full = StoreErrorKind::Media(media::MediaErrorKind::NoSpace);
                assert_eq!(e.kind, full, "{e}");
                failures += 1;
            }
        }
        let other = noise(2, 50_000);
        commit(&pool, begin(&pool), &other);
        // A commit that failed after its root was put has taken effect.
        if pool.snapshots().expect("snapshots").len() > images.len() + 1 {
            images.push(&bytes);
        }
        images.push(&other);
        is_sound(&disk, pool, &images);
    }
    assert!(failures > 10);
}

#[test]
fn sessions_exclude_each_other_and_lanes_come_back() {
    let disk = SimDisk::unrecorded(Image::new());
    let pool = pool(&disk);
    let session = begin(&pool);
    let lane = session.lane(options(Compression::None)).expect("lane");
    let second = pool.begin(options(Compression::None));
    assert_eq!(second.err().map(|e| e.kind), Some(StoreErrorKind::Invalid));
    let refused = pool.commit(session, &[], &[]);
    assert_eq!(refused.err().map(|e| e.kind), Some(StoreErrorKind::Invalid));
    assert!(
        pool.begin(options(Compression::None)).is_err(),
        "a lane lives"
    );
    drop(lane);

    let mut session = begin(&pool);
    let mut lane = session.lane(options(Compression::None)).expect("lane");
    lane.store_chunk(&noise(1, 5000)).expect("store");
    drop(lane);
    session.main().store_chunk(&noise(1, 5000)).expect("store");
    let refused = pool.commit(session, &[], &[]);
    assert_eq!(refused.err().map(|e| e.kind), Some(StoreErrorKind::Invalid));

    let mut session = begin(&pool);
    let mut lane = session.lane(options(Compression::None)).expect("lane");
    lane.store_chunk(&noise(1, 5000)).expect("store");
    session.retire(lane).expect("retire");
    let bytes = noise(1, 5000);
    commit(&pool, session, &bytes);
    is_sound(&disk, pool, &[&bytes]);
}

/// Leaves an interrupted backup, as a process that was killed.
fn interrupted(disk: &Arc<SimDisk>, bytes: &[u8]) {
    let pool = pool(disk);
    let mut session = begin(&pool);
    put_image(&mut session, bytes);
    session.abandon().expect("abandon");
}

fn open_watched(disk: &Arc<SimDisk>, seed: u64, watch: Watch) -> store::Result<Pool> {
    let media = testkit::specimen::media(disk, seed);
    let unlocked = Pool::unlock(&media, None)?.watched(watch.in_steps_of(1_000_000));
    Pool::open_unlocked(media, unlocked, OpenMode::Write, 64 << 20)
}

/// An hour of it would otherwise begin anew with each command that writes.
#[test]
fn what_an_interrupted_run_left_is_verified_once_in_steps_that_can_be_stopped() {
    let disk = SimDisk::unrecorded(Image::new());
    let bytes = noise(3, 6_000_000);
    interrupted(&disk, &bytes);
    let read_by = |seed, stops_at: u64| {
        let before = disk.counts().read_bytes;
        let totals = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&totals);
        let watch = Watch::new(move |done, total| {
            seen.lock().expect("seen").push((done, total));
            match done >= stops_at {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        let opened = open_watched(&disk, seed, watch);
        let totals = totals.lock().expect("seen").clone();
        (opened, disk.counts().read_bytes - before, totals)
    };
    let (stopped, read, seen) = read_by(3, 3_000_000);
    let kind = stopped.err().map(|e| e.kind);
    assert_eq!(kind, Some(StoreErrorKind::Interrupted));
    assert!(read < 5_000_000, "{read} bytes were read: {seen:?}");
    assert!(seen.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 == w[1].1));
    assert!(seen[0] == (0, seen[0].1) && seen[0].1 >= 6_000_000);
    // The steps before the stop are not read again, and the next open reads next to nothing.
    let (opened, read, seen) = read_by(4, u64::MAX);
    drop(opened.expect("open"));
    assert!(read < 6_000_000, "{read} bytes were read");
    assert!(seen[0].1 < 5_000_000, "{seen:?}");
    let (opened, read, _) = read_by(5, u64::MAX);
    assert!(read < 2_000_000, "{read} bytes were read");
    let pool = opened.expect("open");
    assert_eq!(commit(&pool, begin(&pool), &bytes), 0);
    is_sound(&disk, pool, &[&bytes]);
}

#[test]
fn nothing_refers_to_a_damaged_region_of_an_interrupted_run() {
    let disk = SimDisk::unrecorded(Image::new());
    let bytes = noise(4, 3_000_000);
    interrupted(&disk, &bytes);
    let files = disk.image().files_below("containers").into_iter();
    let (largest, len) = files.max_by_key(|(_, len)| *len).expect("containers");
    let flip = Damage::FlipBit(len / 2 * 8);
    disk.damage(&largest, &flip).expect("there");
    let pool = open_watched(&disk, 3, Watch::default()).expect("open");
    assert!(
        pool.health()
            .notes()
            .iter()
            .any(|note| note.contains("is ignored"))
    );
    let mut session = begin(&pool);
    let root = put_image(&mut session, &bytes);
    assert!(session.counts().chunks_new > 0);
    let snapshot = snapshot(&pool, format::snapshot::SnapshotKind::Image, "", root);
    pool.commit(session, &[snapshot], &[]).expect("commit");
    drop(pool);
    let pool = testkit::specimen::open(&disk, 4, None, OpenMode::Read).expect("open");
    let read = pool.reader().read_whole(&root, 1 << 30);
    assert!(read.expect("whole") == bytes);
    assert!(check_all(&pool).expect("check").is_sound());
}
