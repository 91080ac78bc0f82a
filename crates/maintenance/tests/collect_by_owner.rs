//! Garbage collection orders what it copies by owner (GCCDF, EuroSys'25; decision 34).
//!
//! Invariant: only the order of copies changes. No chunk is lost or stored twice, whatever happens
//! to owners, space, memory or the process meanwhile.

use chunking::Compression;
use maintenance::{Collector, GcCounts, GcPolicy, GcStage};
use sim::{Fault, Seed, SimDisk};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use store::{CheckDepth, GcStep, NothingCached, OpenMode, Pool};
use testkit::specimen::restore::Truth;
use testkit::specimen::{media, noise, options, store_image};

const CHUNK: usize = 4096;
const KEPT: usize = 4;

/// An image of chunks that changes a little from one generation to the next.
struct History {
    chunks: Vec<u64>,
    next: u64,
    seed: Seed,
}

impl History {
    fn new(chunks: u64) -> Self {
        Self {
            chunks: (0..chunks).collect(),
            next: chunks,
            seed: Seed::new(7),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let chunks = self.chunks.iter();
        chunks.flat_map(|chunk| noise(*chunk + 1, CHUNK)).collect()
    }

    /// Replaces a twentieth of the chunks by new ones, and moves as many.
    fn age(&mut self) {
        let count = self.chunks.len() as u64;
        for _ in 0..count / 20 {
            let (from, to) = (self.seed.below(count), self.seed.below(count));
            let moved = self.chunks.remove(from as usize);
            self.chunks.insert(to as usize, moved);
            self.chunks[self.seed.below(count) as usize] = self.next;
            self.next += 1;
        }
    }
}

fn policy(by_owner_percent_min: Option<u64>) -> GcPolicy {
    GcPolicy {
        live_percent_max: 100,
        unused_percent_max: 5,
        by_owner_percent_min,
        ..GcPolicy::with_trash_period(0)
    }
}

fn by_owner() -> GcPolicy {
    policy(Some(0))
}

fn open(disk: &Arc<SimDisk>, seed: u64, memory_bytes: usize) -> Pool {
    Pool::open(media(disk, seed), None, OpenMode::Write, memory_bytes).expect("open")
}

fn begin(pool: &Pool, policy: GcPolicy) -> Collector {
    Collector::new(pool, policy, options(Compression::None)).expect("alone")
}

/// Ends a run, in small steps.
fn finish(pool: &Pool, run: &mut Collector) -> GcCounts {
    while run.step(pool, None, &NothingCached, 50_000).expect("step") == GcStep::Working {}
    run.counts()
}

fn run_until(pool: &Pool, run: &mut Collector, stage: GcStage) {
    while run.stage() < stage {
        run.step(pool, None, &NothingCached, 50_000).expect("step");
    }
}

fn is_sound(pool: &Pool, truths: &VecDeque<Truth>) {
    let depth = CheckDepth::Data { part: 1, parts: 1 };
    let report = pool.check(depth, &mut |_, _| ControlFlow::Continue(()));
    assert!(report.expect("check").is_sound());
    for truth in truths {
        assert_eq!(truth.restore(pool).expect("as stored"), [].into());
    }
}

/// A pool after some generations of which the last ones are kept, with garbage.
struct Aged {
    disk: Arc<SimDisk>,
    truths: VecDeque<Truth>,
    history: History,
    /// Copied by gc so far, bytes.
    copied_bytes: u64,
    /// Most memory for owners, bytes.
    owner_bytes: u64,
}

const MEMORY_BYTES: usize = testkit::specimen::MEMORY_BYTES;

fn aged(generations: u64, chunks: u64, policy: GcPolicy) -> Aged {
    let (disk, pool) = testkit::specimen::new_pool();
    drop(pool);
    let mut aged = Aged {
        disk,
        truths: VecDeque::new(),
        history: History::new(chunks),
        copied_bytes: 0,
        owner_bytes: 0,
    };
    for generation in 0..generations {
        let pool = open(&aged.disk, 10 + generation, MEMORY_BYTES);
        aged.back_up(&pool);
        if generation + 1 < generations {
            let counts = finish(&pool, &mut begin(&pool, policy));
            aged.copied_bytes += counts.copied_bytes;
            aged.owner_bytes = aged.owner_bytes.max(counts.owner_bytes);
        }
    }
    aged
}

impl Aged {
    /// Stores the next generation and forgets the oldest.
    fn back_up(&mut self, pool: &Pool) {
        let bytes = self.history.bytes();
        let stored = store_image(pool, "disk", &bytes, Compression::None);
        self.truths.push_back(stored);
        self.history.age();
        while self.truths.len() > KEPT {
            let oldest = self.truths.pop_front().expect("there");
            pool.forget(&[oldest.snapshot]).expect("forget");
        }
    }

    /// Reads of the device that a restore of the newest generation takes.
    fn reads_of_newest(&self) -> u64 {
        let pool = open(&self.disk, 9_000, MEMORY_BYTES);
        let newest = self.truths.back().expect("there").snapshot.root;
        let before = pool.reader().counts().region_reads;
        pool.reader().read_whole(&newest, 1 << 30).expect("read");
        pool.reader().counts().region_reads - before
    }

    fn stored_bytes(&self) -> u64 {
        let pool = open(&self.disk, 9_001, MEMORY_BYTES);
        is_sound(&pool, &self.truths);
        assert_eq!(pool.space().expect("space").duplicate_bytes, 0);
        pool.record().stored_bytes
    }
}

#[test]
fn a_restore_reads_less_and_nothing_is_stored_twice() {
    let planned = aged(25, 600, policy(None));
    let owned = aged(25, 600, by_owner());
    assert_eq!(planned.owner_bytes, 0);
    assert!(owned.owner_bytes > 0, "copies were ordered");
    // Half of the cache of decoded regions, which is half of the pool's memory.
    assert!(
        owned.owner_bytes <= MEMORY_BYTES as u64 / 4,
        "{}",
        owned.owner_bytes
    );
    let reads = [&planned, &owned].map(Aged::reads_of_newest);
    println!("reads: {reads:?}");
    assert!(reads[1] < reads[0], "{reads:?}");
    let stored = [&planned, &owned].map(Aged::stored_bytes);
    println!(
        "stored: {stored:?}, copied {} {}",
        planned.copied_bytes, owned.copied_bytes
    );
    assert!(stored[1] <= stored[0], "{stored:?}");
    // Chunks that die together lie together, so less of what lives is in the way.
    assert!(owned.copied_bytes < planned.copied_bytes);
}

/// A run of a pool with one snapshot, or one that copies little, keeps the planned order.
#[test]
fn small_runs_and_pools_without_history_are_not_ordered() {
    let few = aged(2, 200, policy(None));
    let pool = open(&few.disk, 500, MEMORY_BYTES);
    let oldest = few.truths.front().expect("there").snapshot.clone();
    pool.forget(&[oldest]).expect("forget");
    let counts = finish(&pool, &mut begin(&pool, by_owner()));
    assert!(counts.copied_bytes > 0, "{counts:?}");
    assert_eq!(counts.owner_bytes, 0, "one owner");

    let aged = aged(KEPT as u64 + 1, 200, policy(None));
    let pool = open(&aged.disk, 500, MEMORY_BYTES);
    let mut run = begin(&pool, policy(Some(100_000)));
    run_until(&pool, &mut run, GcStage::Copying);
    assert_eq!(finish(&pool, &mut run).owner_bytes, 0, "little is copied");
}

/// Nothing that the owners' recipes are read from can be read while owners are looked for, or only
/// the first few.
#[test]
fn owners_that_cannot_be_read_end_no_run() {
    for after in [0, 1, 2, 5, 12] {
        let aged = aged(KEPT as u64 + 3, 1500, policy(None));
        // Nodes and directories do not stay in memory.
        let pool = open(&aged.disk, 500, 64 << 10);
        let mut run = begin(&pool, by_owner());
        run_until(&pool, &mut run, GcStage::Ordering);
        assert_eq!(run.stage(), GcStage::Ordering);
        aged.disk.inject(Fault::Read { after });
        run_until(&pool, &mut run, GcStage::Copying);
        aged.disk.clear_faults();
        let counts = finish(&pool, &mut run);
        assert!(counts.copied_bytes > 0 && counts.kept_back_containers == 0);
        is_sound(&pool, &aged.truths);
    }
}

/// Snapshots come and go at each point of a run.
#[test]
fn snapshots_change_in_mid_run() {
    for at in 0..40 {
        let mut aged = aged(KEPT as u64 + 2, 300, policy(None));
        let pool = open(&aged.disk, 500, MEMORY_BYTES);
        let mut run = begin(&pool, by_owner());
        run_until(&pool, &mut run, GcStage::Choosing);
        let mut step = 0;
        loop {
            if step == at {
                let newest = aged.truths.pop_back().expect("there");
                pool.forget(&[newest.snapshot]).expect("forget");
                aged.back_up(&pool);
            }
            step += 1;
            let worked = run.step(&pool, None, &NothingCached, 20_000);
            if worked.expect("step") == GcStep::Done && step > at {
                break;
            }
        }
        assert!(run.counts().owner_bytes > 0);
        is_sound(&pool, &aged.truths);
        drop(run);
        finish(&pool, &mut begin(&pool, by_owner()));
        finish(&pool, &mut begin(&pool, by_owner()));
        is_sound(&pool, &aged.truths);
    }
}

/// The process ends at each step of a run. The next run completes its work.
#[test]
fn a_run_that_is_killed_is_continued() {
    let aged = aged(KEPT as u64 + 2, 300, policy(None));
    let image = aged.disk.image();
    let mut is_over = false;
    for at in 0.. {
        if is_over {
            assert!(at > 20, "{at}");
            return;
        }
        let disk = SimDisk::unrecorded(image.clone());
        let pool = open(&disk, 500, MEMORY_BYTES);
        let mut run = begin(&pool, by_owner());
        run_until(&pool, &mut run, GcStage::Choosing);
        for _ in 0..at {
            let step = run.step(&pool, None, &NothingCached, 60_000).expect("step");
            is_over = step == GcStep::Done;
        }
        // As a process that dies: nothing is given up in order.
        let disk = disk.kill();
        drop((run, pool));
        let pool = open(&disk, 501, MEMORY_BYTES);
        finish(&pool, &mut begin(&pool, by_owner()));
        finish(&pool, &mut begin(&pool, by_owner()));
        is_sound(&pool, &aged.truths);
    }
}

/// The disk becomes full at any write of a run.
#[test]
fn a_run_that_fills_the_disk_removes_its_copies() {
    let aged = aged(KEPT as u64 + 2, 300, policy(None));
    let image = aged.disk.image();
    for step in 0..1000 {
        let disk = SimDisk::unrecorded(image.clone());
        let pool = open(&disk, 500 + step, MEMORY_BYTES);
        disk.inject(Fault::NoSpaceAfter(step * 30_000));
        let mut run = begin(&pool, by_owner());
        let failed = loop {
            match run.step(&pool, None, &NothingCached, 50_000) {
                Ok(GcStep::Working) => {}
                Ok(GcStep::Done) => break false,
                Err(e) => {
                    assert!(e.is_full(), "{e}");
                    break true;
                }
            }
        };
        disk.clear_faults();
        drop(run);
        is_sound(&pool, &aged.truths);
        assert_eq!(pool.space().expect("space").duplicate_bytes, 0);
        finish(&pool, &mut begin(&pool, by_owner()));
        is_sound(&pool, &aged.truths);
        if !failed {
            assert!(step > 5, "{step}");
            return;
        }
    }
    panic!("it never succeeds");
}

/// Hardly more space is free than the copies need: the planned order frees as it goes.
#[test]
fn scarce_space_keeps_the_planned_order() {
    let aged = aged(KEPT as u64 + 2, 400, policy(None));
    let mut orders = [false; 2];
    for percent in [101, 103, 106, 110, 120, 200] {
        let disk = SimDisk::unrecorded(aged.disk.image());
        disk.set_capacity(Some(disk.used_bytes() / 100 * percent));
        let pool = open(&disk, 500, MEMORY_BYTES);
        for _ in 0..30 {
            let counts = finish(&pool, &mut begin(&pool, by_owner()));
            orders[usize::from(counts.owner_bytes > 0)] = true;
            is_sound(&pool, &aged.truths);
            if counts.discarded_containers == 0 {
                break;
            }
        }
    }
    assert_eq!(orders, [true, true]);
}

/// There are far more snapshots than owners with a bit.
#[test]
fn thousands_of_snapshots_cost_no_more_memory() {
    let aged = aged(KEPT as u64 + 2, 200, policy(None));
    let pool = open(&aged.disk, 500, MEMORY_BYTES);
    let newest: Vec<_> = aged.truths.iter().rev().take(2).collect();
    let clones: Vec<_> = (0..6000u32)
        .map(|n| format::snapshot::Snapshot {
            id: pool.new_snapshot_id(),
            name: format!("clone {}", n % 3000),
            taken: pool.now(),
            ..newest[n.count_ones() as usize % 2].snapshot.clone()
        })
        .collect();
    pool.change_snapshots(&clones, &[]).expect("by name");
    let counts = finish(&pool, &mut begin(&pool, by_owner()));
    assert!(counts.owner_bytes > 0 && counts.owner_bytes <= MEMORY_BYTES as u64 / 4);
    is_sound(&pool, &aged.truths);
}
