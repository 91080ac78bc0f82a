//! Power losses in a pool's life: the seeded set that runs with every test.
//!
//! The documented long run is `cargo run --release -p sim --example explore_pool`; its findings are
//! in `docs/evaluation/crash.md`.

use media::Barrier;
use sim::pool_histories::{
    MEMORY_BYTES, PoolHistory, Source, What, check_all, init_options, lane_options, media, scripts,
    snapshot,
};
use sim::{CrashPoint, Explorer, Plan, Report, Seed, SimDisk, Walker};
use std::sync::Arc;
use store::{LaneOptions, OpenMode, Pool, Watch};

fn explore(history: &PoolHistory, states: usize) -> Report {
    let mut explorer = Explorer::new(history.seed, states);
    explorer.recovery_depth = 1;
    explorer.recovery_every = 12;
    explorer.recovery_states_max = 16;
    explorer.threads = 2;
    explorer.explore(history)
}

#[test]
fn scripted_histories_survive() {
    for (name, ops) in scripts() {
        let report = explore(&PoolHistory::new(name, 1, ops), 300);
        report.expect_none();
        assert!(report.states >= 200, "{name}: {report:?}");
        assert!(report.recovery_states >= 100, "{name}: {report:?}");
    }
}

#[test]
fn random_histories_survive() {
    let mut whole = Report::default();
    for seed in 1..=24 {
        let history = PoolHistory::random(seed, 10);
        let report = explore(&history, 150);
        if !report.failures.is_empty() {
            println!("{:?}", history.ops);
        }
        report.expect_none();
        whole += report;
    }
    assert!(whole.states > 3000, "{whole:?}");
}

/// Containers of one directory; a container's shard is its number divided by this.
const SHARD: usize = 1024;

#[test]
fn what_was_adopted_is_durable_in_other_directories_too() {
    let disk = SimDisk::new();
    let open = |disk: &Arc<SimDisk>, salt, mode| {
        let media = media(Arc::clone(disk) as _, salt);
        Pool::open(media, None, mode, MEMORY_BYTES).expect("open")
    };
    Pool::init(&media(Arc::clone(&disk) as _, 1), &init_options(&[])).expect("init");
    let source = Source::new(What::Image, &mut Seed::new(1));
    let single = LaneOptions {
        container_bytes: 1,
        ..lane_options()
    };
    // A shard full of containers; the image is in the last of them.
    let pool = open(&disk, 2, OpenMode::Write);
    let mut session = pool.begin(single).expect("begin");
    let filler = (1..=SHARD as u64 - 4).map(|n| n.to_le_bytes().repeat(512));
    for chunk in filler.collect::<Vec<_>>() {
        session.main().store_chunk(&chunk).expect("store");
    }
    source.put(&mut session, 0, single).expect("put");
    session.abandon().expect("abandon");
    // The process is killed; the next one finds all of it and commits in the next shard.
    let disk = disk.kill();
    let pool = open(&disk, 3, OpenMode::Write);
    assert!(pool.adopted().len() >= SHARD);
    let mut session = pool.begin(single).expect("begin");
    let root = source.put(&mut session, 0, single).expect("put");
    assert_eq!(session.counts().chunks_new, 0);
    let record = snapshot(&pool, What::Image, &source, root);
    pool.commit(session, &[record], &[]).expect("commit");
    let recording = disk.recording();
    let mut walker = Walker::new(&recording);
    walker.advance(recording.log.len());
    let lost = CrashPoint::new(&walker).state(Plan::Nothing);
    let pool = open(&SimDisk::on(lost), 4, OpenMode::Read);
    source.compare(&pool, &root).expect("whole");
}

/// Opens a pool with leftovers, which are remembered one by one, and looks at every crash on the
/// way: the snapshot before is whole, and so is a backup of what the leftovers are of.
fn remember_through_crashes(without: Option<Barrier>) -> Result<usize, String> {
    let disk = SimDisk::new();
    let open = |disk: &Arc<SimDisk>, salt, step_bytes| {
        let media = media(Arc::clone(disk) as _, salt);
        let watch = Watch::default().in_steps_of(step_bytes);
        let unlocked = Pool::unlock(&media, None)?.watched(watch);
        Pool::open_unlocked(media, unlocked, OpenMode::Write, MEMORY_BYTES)
    };
    Pool::init(&media(Arc::clone(&disk) as _, 1), &init_options(&[])).expect("init");
    let single = LaneOptions {
        container_bytes: 1,
        ..lane_options()
    };
    let store = |pool: &Pool, source: &Source| {
        let mut session = pool.begin(single)?;
        let root = source.put(&mut session, 0, single)?;
        let record = snapshot(pool, What::Image, source, root);
        pool.commit(session, &[record], &[]).map(|_| root)
    };
    let mut seed = Seed::new(5);
    let before = Source::new(What::Image, &mut seed);
    let left = Source::new(What::Image, &mut seed);
    let pool = open(&disk, 2, u64::MAX).expect("open");
    let known = store(&pool, &before).expect("commit");
    let mut session = pool.begin(single).expect("begin");
    left.put(&mut session, 0, single).expect("put");
    session.abandon().expect("abandon");
    drop(pool);
    let disk = disk.kill();
    let disk = match without {
        Some(barrier) => disk.without(barrier),
        None => disk,
    };
    let generation = |pool: &Pool| pool.record().next_sequence.values().sum::<u64>();
    let pool = open(&disk, 3, u64::MAX).expect("open");
    let as_left = generation(&pool);
    drop(pool);
    let from = disk.position();
    let pool = open(&disk, 4, 1).expect("open");
    assert!(generation(&pool) > as_left + 2, "several steps");
    drop(pool);
    let recording = disk.recording();
    let mut walker = Walker::new(&recording);
    let mut states = 0;
    for position in from..=recording.log.len() {
        walker.advance(position);
        let point = CrashPoint::new(&walker);
        for plan in point.plans(24, &mut seed) {
            states += 1;
            let failed = |what: &str| format!("{what} after {position}, {plan:?}");
            let disk = SimDisk::unrecorded(point.state(plan));
            let pool = open(&disk, 5, u64::MAX).map_err(|e| failed(&e.to_string()))?;
            let whole = |source: &Source, root| {
                source
                    .compare(&pool, root)
                    .map_err(|e| failed(&format!("{e:?}")))
            };
            whole(&before, &known)?;
            let again = store(&pool, &left).map_err(|e| failed(&e.to_string()))?;
            whole(&left, &again)?;
            let report = check_all(&pool).map_err(|e| failed(&e.to_string()))?;
            if !report.is_sound() {
                return Err(failed(&format!("{report:?}")));
            }
        }
    }
    Ok(states)
}

#[test]
fn remembering_leftovers_survives_and_misses_its_barrier() {
    let states = remember_through_crashes(None).expect("whole");
    assert!(states > 200, "{states}");
    let missed = remember_through_crashes(Some(Barrier::ContainersBeforeRoot));
    missed.expect_err("a barrier that nothing misses");
}
