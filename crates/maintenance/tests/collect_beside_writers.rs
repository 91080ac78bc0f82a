//! Garbage collection beside backups, forget commands, volumes and readers, each in a thread.
//!
//! Invariant: contents come from few blocks, so garbage is needed again all the time. Listed
//! snapshots and volumes always have what was written, and at the end no garbage is left.

use crate::small_volumes;

use chunking::Compression;
use format::snapshot::SnapshotKind;
use maintenance::{Collector, GcCounts};
use parking_lot::Mutex;
use sim::Seed;
use sim::pool_histories::at_once;
use small_volumes::{CONTEXT, is_sound, made, open, read, write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::scope;
use std::time::{Duration, Instant};
use store::{GcStep, NothingCached, Pool};
use testkit::specimen::{noise, options, put_image, snapshot};
use units::SnapshotId;
use volume::Volume;
use volumes::Volumes;

const BLOCK: usize = 4096;
/// Number of blocks that all contents are made of.
const BLOCKS: u64 = 200;
const VOLUME_BLOCKS: u64 = 96;
/// Limit for the threads to have done enough. Only a test that fails takes so long.
const LIMIT: Duration = Duration::from_secs(120);

fn block(number: u64) -> Vec<u8> {
    noise(number % BLOCKS, BLOCK)
}

/// A run of neighbouring blocks, with a few others.
fn contents(seed: &mut Seed) -> Vec<u8> {
    let first = seed.below(BLOCKS);
    let count = 10 + seed.below(60);
    let pick = |n: u64, seed: &mut Seed| match seed.below(16) {
        0 => seed.below(BLOCKS),
        _ => first + n,
    };
    let blocks: Vec<u64> = (0..count).map(|n| pick(n, seed)).collect();
    blocks.into_iter().flat_map(block).collect()
}

struct Workload {
    /// Listed snapshots and their bytes.
    known: Mutex<Vec<(format::snapshot::Snapshot, Vec<u8>)>>,
    /// Lock of commands that write, as a server has one.
    grant: Mutex<()>,
    over: AtomicBool,
    counts: Mutex<GcCounts>,
    reads: AtomicU64,
}

impl Workload {
    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Relaxed)
    }

    /// Returns true if everything has happened often beside everything else.
    fn is_enough(&self) -> bool {
        let counts = self.counts.lock();
        let collected = counts.deleted_containers.min(counts.merged_containers) > 600;
        collected && counts.copied_chunks > 6000 && self.reads.load(Ordering::Relaxed) > 3000
    }
}

fn back_up(pool: &Pool, shared: &Workload, mut seed: Seed) {
    while shared.goes_on() {
        let bytes = contents(&mut seed);
        let _grant = shared.grant.lock();
        let mut session = pool.begin(options(Compression::Lz4)).expect("begin");
        let root = put_image(&mut session, &bytes);
        if seed.below(4) == 0 {
            // As long as a gc run takes, and longer.
            std::thread::sleep(Duration::from_millis(seed.below(60)));
        }
        match seed.below(8) {
            0 => drop(session),
            1 => session.abandon().expect("abandon"),
            _ => {
                let record = snapshot(pool, SnapshotKind::Image, "", root);
                pool.commit(session, std::slice::from_ref(&record), &[])
                    .expect("commit");
                shared.known.lock().push((record, bytes));
            }
        }
    }
}

/// Forgets, and restores some; or refers to an old snapshot by name only, as an unchanged file
/// does.
fn forget(pool: &Pool, shared: &Workload, mut seed: Seed) {
    while shared.goes_on() {
        std::thread::sleep(Duration::from_millis(seed.below(12)));
        let _grant = shared.grant.lock();
        let _hold = pool.hold();
        let victim = {
            let mut known = shared.known.lock();
            match known.len() {
                0..=3 => continue,
                count => known.swap_remove(seed.below(count as u64) as usize),
            }
        };
        pool.forget(std::slice::from_ref(&victim.0))
            .expect("forget");
        let (mut record, bytes) = victim;
        match seed.below(4) {
            // Gc may have purged it first.
            0 if pool.undelete(&[record.id]).is_ok() => {
                shared.known.lock().push((record, bytes));
            }
            1 => {
                std::thread::sleep(Duration::from_millis(seed.below(40)));
                record.id = pool.new_snapshot_id();
                pool.change_snapshots(std::slice::from_ref(&record), &[])
                    .expect("by name");
                shared.known.lock().push((record, bytes));
            }
            _ => {}
        }
    }
}

fn collect(pool: &Pool, volumes: &Volumes, shared: &Workload) {
    while shared.goes_on() {
        let counts = run(pool, volumes);
        let mut all = shared.counts.lock();
        all.deleted_containers += counts.deleted_containers;
        all.copied_chunks += counts.copied_chunks;
        all.merged_containers += counts.merged_containers;
        all.snapshots_purged += counts.snapshots_purged;
    }
}

fn run(pool: &Pool, volumes: &Volumes) -> GcCounts {
    let lane = options(Compression::Lz4);
    let mut collector = Collector::new(pool, at_once(), lane).expect("alone");
    while collector
        .step(pool, Some(volumes), &NothingCached, 50_000)
        .expect("step")
        == GcStep::Working
    {}
    collector.counts()
}

fn read_back(pool: &Pool, shared: &Workload, mut seed: Seed) {
    while shared.goes_on() {
        let chosen = {
            let known = shared.known.lock();
            match known.len() {
                0 => continue,
                count => known[seed.below(count as u64) as usize].clone(),
            }
        };
        let (record, bytes) = chosen;
        match pool.reader().read_whole(&record.root, 1 << 24) {
            Ok(found) => assert!(found == bytes, "other bytes"),
            Err(e) => {
                // It was removed meanwhile, and only then.
                let is_known = |id: SnapshotId| {
                    let known = shared.known.lock();
                    known.iter().any(|(record, _)| record.id == id)
                };
                assert!(!is_known(record.id), "{e}");
            }
        }
        shared.reads.fetch_add(1, Ordering::Relaxed);
    }
}

fn use_volume(volumes: &Volumes, shared: &Workload, mut seed: Seed) -> Vec<u8> {
    let volume = volumes.volume("v").expect("volume");
    let mut now = vec![0; VOLUME_BLOCKS as usize * BLOCK];
    while shared.goes_on() {
        let first = seed.below(VOLUME_BLOCKS - 40);
        let count = 1 + seed.below(40);
        let from = seed.below(BLOCKS);
        let bytes: Vec<u8> = (from..from + count).flat_map(block).collect();
        let at = first as usize * BLOCK;
        write(&volume, at as u64, &bytes);
        now[at..at + bytes.len()].copy_from_slice(&bytes);
        match seed.below(8) {
            0 => volume.flush(CONTEXT).expect("flush"),
            1..=3 => drop(volumes.step(30_000).expect("step")),
            4 => assert!(read(&volume) == now, "the volume holds something else"),
            _ => {}
        }
    }
    now
}

#[test]
fn nothing_that_is_needed_goes() {
    let disk = made();
    let volumes = open(&disk, 2);
    let pool = volumes.pool();
    volumes
        .create("v", VOLUME_BLOCKS * BLOCK as u64, 12)
        .expect("create");
    let shared = Workload {
        known: Mutex::default(),
        grant: Mutex::default(),
        over: AtomicBool::new(false),
        counts: Mutex::default(),
        reads: AtomicU64::new(0),
    };
    let part = |n| Seed::new(5).part(n);
    let (shared_ref, volumes_ref) = (&shared, &volumes);
    let now = scope(|threads| {
        let others = [
            threads.spawn(move || back_up(pool, shared_ref, part(1))),
            threads.spawn(move || forget(pool, shared_ref, part(2))),
            threads.spawn(move || collect(pool, volumes_ref, shared_ref)),
            threads.spawn(move || read_back(pool, shared_ref, part(3))),
        ];
        let user = threads.spawn(move || use_volume(volumes_ref, shared_ref, part(4)));
        let started = Instant::now();
        // A thread that ends early has panicked.
        let all_run = || !user.is_finished() && others.iter().all(|other| !other.is_finished());
        while !shared_ref.is_enough() && started.elapsed() < LIMIT && all_run() {
            std::thread::sleep(Duration::from_millis(20));
        }
        shared_ref.over.store(true, Ordering::Relaxed);
        user.join().expect("volume")
    });
    let counts = *shared.counts.lock();
    let reads = shared.reads.load(Ordering::Relaxed);
    assert!(shared.is_enough(), "{counts:?}, {reads} reads");
    for _ in 0..3 {
        run(pool, &volumes);
    }
    for (record, bytes) in shared.known.lock().iter() {
        let found = pool.reader().read_whole(&record.root, 1 << 24);
        assert!(found.expect("read") == *bytes);
    }
    is_sound(&volumes);
    volumes.checkpoint().expect("checkpoint");
    for _ in 0..3 {
        run(pool, &volumes);
    }
    assert_eq!(pool.space().expect("space").duplicate_bytes, 0);
    drop(volumes);
    // The next process finds the same.
    let volumes = open(&disk, 3);
    assert!(read(&volumes.volume("v").expect("volume")) == now);
    for (record, bytes) in shared.known.lock().iter() {
        let found = volumes.pool().reader().read_whole(&record.root, 1 << 24);
        assert!(found.expect("read") == *bytes);
    }
    is_sound(&volumes);
}
