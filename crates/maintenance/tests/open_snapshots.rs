//! Snapshots that clients of this process have open, while they are forgotten, purged and
//! collected.
//!
//! Invariant: an open snapshot restores from the disk alone, byte for byte. The next gc run deletes
//! snapshots that no client has open any more.

use chunking::Compression;
use format::snapshot::{Snapshot, SnapshotKind};
use maintenance::{Collector, GcCounts, GcStage};
use media::Clock;
use parking_lot::Mutex;
use sim::pool_histories::{at_once, finish_gc, init_options};
use sim::{Seed, SimDisk};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use store::{GcStep, Hold, HolderKind, NothingCached, OpenMode, OpenSnapshot, Pool, SnapshotRoot};
use testkit::specimen::restore::Truth;
use testkit::specimen::{
    MEMORY_BYTES, Specimen, media, noise, options, put_image, snapshot, store_image,
};
use units::UnixNanos;

/// Bytes of a small step: two or three references.
const STEP_BYTES: u64 = 8_000;
/// Number of reads, and of deleted containers, after which threads end.
const ENOUGH: u64 = 400;
/// Limit for that. Only a test that fails takes so long.
const LIMIT: Duration = Duration::from_secs(120);

fn collector(pool: &Pool) -> Collector {
    Collector::new(pool, at_once(), options(Compression::Lz4)).expect("alone")
}

fn step(pool: &Pool, run: &mut Collector) -> GcStep {
    let step = run.step(pool, None, &NothingCached, STEP_BYTES);
    step.expect("step")
}

fn finish(pool: &Pool, run: &mut Collector) -> GcCounts {
    finish_gc(pool, None, run, STEP_BYTES).expect("step")
}

/// Runs gc until all garbage is deleted.
fn collect(pool: &Pool) -> GcCounts {
    let mut counts = GcCounts::default();
    for _ in 0..4 {
        counts = counts.followed_by(finish(pool, &mut collector(pool)));
    }
    counts
}

fn open(pool: &Pool, snapshot: &Snapshot) -> Option<OpenSnapshot> {
    pool.holders()
        .open_snapshot(&SnapshotRoot::from(snapshot), HolderKind::Nbd, "a client")
}

/// Counts the names that a process with an empty cache cannot read from the disk.
fn lost(disk: &SimDisk, truth: &Truth) -> usize {
    let copy = SimDisk::unrecorded(disk.image());
    let fresh = testkit::specimen::open(&copy, 77, None, OpenMode::Read).expect("open");
    truth.restore(&fresh).expect("as stored, or an error").len()
}

fn containers(disk: &SimDisk) -> usize {
    disk.image().files_below("containers").len()
}

#[test]
fn what_clients_have_open_stays_until_the_last_of_them_lets_go() {
    let specimen = Specimen::new(7, false);
    let disk = specimen.disk();
    let pool = specimen.open(&disk, 1, OpenMode::Write).expect("open");
    let all: Vec<_> = specimen.truths.iter().map(|t| t.snapshot.clone()).collect();
    let opened: Vec<_> = all
        .iter()
        .map(|s| open(&pool, s).expect("listed"))
        .collect();
    pool.forget(&all).expect("forget");
    let counts = collect(&pool);
    assert_eq!(counts.snapshots_purged, all.len() as u64);
    assert_eq!(counts.held_snapshots, all.len() as u64);
    assert!(counts.held_containers > 0 && counts.held_bytes > 0);
    let (listed, trash) = (
        pool.snapshots().expect("list"),
        pool.trash().expect("trash"),
    );
    assert!(listed.is_empty() && trash.0.is_empty());
    for truth in &specimen.truths {
        assert_eq!(lost(&disk, truth), 0, "{}", truth.name());
    }
    // Closes every other snapshot, and opens one of the rest twice.
    let mut opened: Vec<_> = opened.into_iter().map(Some).collect();
    let again = open(&pool, &all[0]).expect("another client has it open");
    for number in [1, 3] {
        opened[number] = None;
    }
    opened[0] = None;
    let bytes = counts.held_bytes;
    let counts = collect(&pool);
    assert_eq!(counts.held_snapshots, all.len() as u64 - 2);
    assert!(counts.held_bytes < bytes && counts.deleted_containers > 0);
    for number in [0, 2, 4] {
        let truth = &specimen.truths[number];
        assert_eq!(lost(&disk, truth), 0, "{}", truth.name());
    }
    assert!(lost(&disk, &specimen.truths[1]) > 0, "nobody had it open");
    assert!(open(&pool, &all[1]).is_none(), "it is gone");
    let before = containers(&disk);
    drop((again, opened));
    let counts = collect(&pool);
    let held = (
        counts.held_snapshots,
        counts.held_containers,
        counts.held_bytes,
    );
    assert_eq!(held, (0, 0, 0));
    assert!(containers(&disk) < before);
    assert!(specimen.truths.iter().all(|truth| lost(&disk, truth) > 0));
    assert_eq!(pool.holders().open_snapshots(), []);
}

#[test]
fn holders_are_counted_by_identity() {
    let specimen = Specimen::new(8, false);
    let disk = specimen.disk();
    let pool = specimen.open(&disk, 1, OpenMode::Write).expect("open");
    let root = SnapshotRoot::from(&specimen.truths[0].snapshot);
    let nbd = || {
        pool.holders()
            .open_snapshot(&root, HolderKind::Nbd, "disk@1")
    };
    let (one, two) = (nbd(), nbd());
    let mount = pool
        .holders()
        .open_snapshot(&root, HolderKind::Mount, "/mnt");
    let held = pool.holders().open_snapshots();
    let reported: Vec<_> = held
        .iter()
        .map(|h| (h.kind, &h.name[..], h.opens))
        .collect();
    let expected = [
        (HolderKind::Nbd, "disk@1", 2),
        (HolderKind::Mount, "/mnt", 1),
    ];
    assert_eq!(reported, expected);
    drop((one, mount));
    let held = pool.holders().open_snapshots();
    assert_eq!((held.len(), held[0].opens), (1, 1));
    assert!(held[0].since.0 > 0 && held[0].since < pool.now());
    drop(two);
    assert_eq!(pool.holders().open_snapshots(), []);
    // A process that only reads is protected by its own file.
    let reader = specimen.open(&disk, 2, OpenMode::Read).expect("open");
    assert!(
        reader
            .holders()
            .open_snapshot(&root, HolderKind::Mount, "/mnt")
            .is_none()
    );
}

/// The time at which the client opens a snapshot that gc may be about to purge.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Case {
    /// Listed when it is opened, and forgotten right after that.
    ForgottenAfter,
    /// In the trash and overdue before the run begins.
    ForgottenBefore,
}

/// A client opens the snapshot after `steps` steps of a gc run. If it was opened, it is complete
/// after that run and all others. Returns the steps of the run, and whether the snapshot was
/// opened.
fn comes_after(steps: usize, case: Case) -> (usize, bool) {
    let disk = SimDisk::unrecorded(sim::Image::new());
    Pool::init(&media(&disk, 1), &init_options(&[])).expect("init");
    let pool = testkit::specimen::open(&disk, 2, None, OpenMode::Write).expect("open");
    let kept = store_image(&pool, "kept", &noise(1, 60_000), Compression::None);
    let truth = store_image(&pool, "wanted", &noise(2, 90_000), Compression::None);
    let wanted = std::slice::from_ref(&truth.snapshot);
    if case == Case::ForgottenBefore {
        pool.forget(wanted).expect("forget");
    }
    let mut run = collector(&pool);
    let mut taken = 0;
    while taken < steps && step(&pool, &mut run) == GcStep::Working {
        taken += 1;
    }
    let opened = open(&pool, &truth.snapshot);
    if case == Case::ForgottenAfter {
        pool.forget(wanted).expect("forget");
    }
    while step(&pool, &mut run) == GcStep::Working {
        taken += 1;
    }
    drop(run);
    if opened.is_some() {
        assert_eq!(lost(&disk, &truth), 0, "{case:?} after {steps} steps");
        collect(&pool);
        assert_eq!(lost(&disk, &truth), 0, "{case:?} after {steps} steps");
    }
    let was_opened = opened.is_some();
    drop(opened);
    collect(&pool);
    assert!(lost(&disk, &truth) > 0, "nobody has it open any more");
    assert_eq!(lost(&disk, &kept), 0);
    (taken, was_opened)
}

#[test]
fn a_client_that_comes_during_a_run_is_safe_at_every_step() {
    for case in [Case::ForgottenAfter, Case::ForgottenBefore] {
        let (mut steps, mut opened, mut refused) = (0, 0, 0);
        loop {
            let (in_all, was_opened) = comes_after(steps, case);
            match was_opened {
                true => opened += 1,
                false => refused += 1,
            }
            if steps > in_all {
                break;
            }
            steps += 1;
        }
        assert!(steps > 10, "{steps} steps");
        match case {
            Case::ForgottenAfter => assert_eq!(refused, 0),
            // Purging is the first step.
            Case::ForgottenBefore => assert_eq!(opened, 1),
        }
    }
}

/// Snapshots that clients open while other threads change them.
struct Workload {
    listed: Mutex<Vec<Truth>>,
    over: AtomicBool,
    reads: AtomicU64,
    refused: AtomicU64,
    deleted: AtomicU64,
}

impl Workload {
    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Relaxed)
    }
}

/// Opens any snapshot, which another thread forgets before, while or after; reads all of it, twice.
fn be_client(pool: &Pool, shared: &Workload, mut seed: Seed) {
    while shared.goes_on() {
        let chosen = {
            let listed = shared.listed.lock();
            match listed.len() {
                0 => continue,
                count => listed[seed.below(count as u64) as usize].clone(),
            }
        };
        if seed.below(2) == 0 {
            std::thread::sleep(Duration::from_millis(seed.below(30)));
        }
        let Some(opened) = open(pool, &chosen.snapshot) else {
            shared.refused.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        for _ in 0..2 {
            let lost = chosen.restore(pool).expect("as stored");
            assert_eq!(lost, [].into(), "{:?}", chosen.snapshot.id);
            shared.reads.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(seed.below(40)));
        }
        drop(opened);
    }
}

fn make_and_forget(pool: &Pool, shared: &Workload, mut seed: Seed) {
    while shared.goes_on() {
        // From few blocks, so that garbage is needed again.
        let first = seed.below(60);
        let blocks = first..first + 8 + seed.below(24);
        let bytes: Vec<u8> = blocks.flat_map(|block| noise(block, 4096)).collect();
        let mut session = pool.begin(options(Compression::Lz4)).expect("begin");
        let root = put_image(&mut session, &bytes);
        let record = snapshot(pool, SnapshotKind::Image, "", root);
        let added = std::slice::from_ref(&record);
        pool.commit(session, added, &[]).expect("commit");
        let forgotten = {
            let mut listed = shared.listed.lock();
            listed.push(Truth::of_bytes(record, bytes));
            let is_enough = listed.len() > 4;
            is_enough.then(|| listed.swap_remove(seed.below(4) as usize))
        };
        if let Some(forgotten) = forgotten {
            pool.forget(&[forgotten.snapshot]).expect("forget");
        }
    }
}

#[test]
fn clients_writers_and_collections_side_by_side() {
    let (disk, pool) = testkit::specimen::new_pool();
    drop(pool);
    // So little memory that clients read from the disk.
    let pool = Pool::open(media(&disk, 3), None, OpenMode::Write, 64 << 10).expect("open");
    let shared = Workload {
        listed: Mutex::default(),
        over: AtomicBool::new(false),
        reads: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        deleted: AtomicU64::new(0),
    };
    let part = |n| Seed::new(11).part(n);
    let (pool, shared) = (&pool, &shared);
    std::thread::scope(|threads| {
        threads.spawn(move || make_and_forget(pool, shared, part(0)));
        for client in 1..4 {
            threads.spawn(move || be_client(pool, shared, part(client)));
        }
        let collects = threads.spawn(move || {
            while shared.goes_on() {
                let counts = finish(pool, &mut collector(pool));
                let deleted = counts.deleted_containers;
                shared.deleted.fetch_add(deleted, Ordering::Relaxed);
            }
        });
        let started = Instant::now();
        let is_enough = || {
            let counts = [&shared.reads, &shared.deleted];
            counts.iter().all(|of| of.load(Ordering::Relaxed) > ENOUGH)
        };
        while !is_enough() && started.elapsed() < LIMIT && !collects.is_finished() {
            std::thread::sleep(Duration::from_millis(20));
        }
        shared.over.store(true, Ordering::Relaxed);
    });
    let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
    let (reads, deleted) = (count(&shared.reads), count(&shared.deleted));
    let refused = count(&shared.refused);
    assert!(
        reads > ENOUGH && deleted > ENOUGH,
        "{reads} reads, {refused} refused, {deleted} deleted"
    );
    assert_eq!(pool.holders().open_snapshots(), []);
}

/// Damage makes part of a snapshot unreadable, and nothing else needs what only the client has
/// open.
#[test]
fn damage_to_what_only_a_client_has_open_stops_nothing() {
    let (disk, pool) = testkit::specimen::new_pool();
    let names = |disk: &SimDisk| -> Vec<String> {
        let files = disk.image().files_below("containers").into_iter();
        files.map(|(name, _)| name).collect()
    };
    let kept = store_image(&pool, "kept", &noise(1, 90_000), Compression::None);
    let before = names(&disk);
    let open_one = store_image(&pool, "open", &noise(2, 90_000), Compression::None);
    let added = names(&disk);
    drop(pool);
    // The largest of them: data of the second snapshot. Recipes and the catalog are elsewhere.
    let len = |name: &String| disk.image().contents(name).map_or(0, |bytes| bytes.len());
    let added = added.into_iter().filter(|name| !before.contains(name));
    let victim = added.max_by_key(len).expect("a container");
    let half = vec![0x5a; len(&victim) / 2];
    disk.plant(&victim, &half);
    let pool = testkit::specimen::open(&disk, 3, None, OpenMode::Write).expect("open");
    let mut run = collector(&pool);
    let stopped = loop {
        match run.step(&pool, None, &NothingCached, STEP_BYTES) {
            Ok(GcStep::Working) => {}
            Ok(GcStep::Done) => panic!("collected a damaged pool"),
            Err(e) => break e,
        }
    };
    assert!(stopped.is_corruption(), "{stopped}");
    run.give_up(&pool);
    let opened = open(&pool, &open_one.snapshot).expect("listed");
    pool.forget(std::slice::from_ref(&open_one.snapshot))
        .expect("forget");
    let counts = collect(&pool);
    assert_eq!((counts.snapshots_purged, counts.held_snapshots), (1, 1));
    assert_eq!(lost(&disk, &kept), 0);
    drop(opened);
    assert_eq!(collect(&pool).held_snapshots, 0);
    assert_eq!(lost(&disk, &kept), 0);
}

/// A clock that runs a function once, at a given query from now on.
struct Interrupting {
    now: UnixNanos,
    left: AtomicU64,
    what: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Clock for Interrupting {
    fn now(&self) -> UnixNanos {
        let is_due = |left: u64| left.checked_sub(1);
        let left = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, is_due);
        if left == Ok(1)
            && let Some(what) = self.what.lock().take()
        {
            what();
        }
        self.now
    }
}

/// A hold that begins after gc looked for holds, and before it purges: snapshots forgotten after
/// that are not purged.
#[test]
fn what_is_forgotten_under_a_hold_that_the_purge_has_not_seen_stays() {
    let mut forgotten_under_hold = 0;
    // Any later it would be in the middle of the commit.
    for asked in 1..=3 {
        let disk = SimDisk::unrecorded(sim::Image::new());
        Pool::init(&media(&disk, 1), &init_options(&[])).expect("init");
        let clock = Arc::new(Interrupting {
            now: UnixNanos(1_000_000_000),
            left: AtomicU64::new(0),
            what: Mutex::default(),
        });
        let media = media::Media {
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            ..media(&disk, 2)
        };
        let pool = Pool::open(media, None, OpenMode::Write, MEMORY_BYTES).expect("open");
        let pool = Arc::new(pool);
        let forgotten_image = store_image(&pool, "gone", &noise(1, 30_000), Compression::None);
        let other = store_image(&pool, "other", &noise(2, 30_000), Compression::None);
        pool.forget(&[forgotten_image.snapshot]).expect("forget");
        let held: Arc<Mutex<Option<Hold>>> = Arc::default();
        let (of_clock, wanted) = (Arc::clone(&pool), other.snapshot.clone());
        let holds = Arc::clone(&held);
        let mut run = collector(&pool);
        *clock.what.lock() = Some(Box::new(move || {
            *holds.lock() = Some(of_clock.hold());
            of_clock.forget(&[wanted]).expect("forget");
        }));
        clock.left.store(asked, Ordering::SeqCst);
        while run.stage() == GcStage::Purging {
            step(&pool, &mut run);
        }
        clock.left.store(0, Ordering::SeqCst);
        if held.lock().is_none() {
            clock.what.lock().take();
            continue;
        }
        forgotten_under_hold += 1;
        let (forgotten, _) = pool.trash().expect("trash");
        let is_there = forgotten.iter().any(|f| f.snapshot.id == other.snapshot.id);
        assert!(is_there, "purged under a hold, asked {asked} times");
    }
    assert!(forgotten_under_hold > 1, "{forgotten_under_hold}");
}
