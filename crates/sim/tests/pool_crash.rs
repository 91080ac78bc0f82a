//! Power losses in a pool's life: the seeded set that runs with every test.
//!
//! The documented long run is `cargo run --release -p sim --example explore_pool`; its findings are
//! in `docs/evaluation/crash.md`.

use sim::pool_histories::{
    MEMORY_BYTES, PoolHistory, Source, What, init_options, lane_options, media, scripts, snapshot,
};
use sim::{CrashPoint, Explorer, Plan, Report, Seed, SimDisk, Walker};
use std::sync::Arc;
use store::{LaneOptions, OpenMode, Pool};

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
