//! Every barrier of the pool is needed: without it, some crash state is wrong.
//!
//! Invariant: `media::Barrier::ALL` is the list. A barrier whose absence has no effect fails this
//! test and should be removed. The types ensure that no sync lacks a barrier. The barriers of the
//! journal and of upgrades (`pool_upgrade.rs`) have their own tests.

use media::Barrier;
use sim::pool_histories::{MEMORY_BYTES, PoolHistory, PoolOp, Process, What, media, scripts};
use sim::{CrashPoint, Explorer, History, Image, Plan, SimDisk, Walker};
use std::sync::Arc;
use store::{OpenMode, Pool};

/// Returns the first failure of any history without this barrier.
fn missed(barrier: Barrier) -> Option<String> {
    let scripts = scripts().into_iter();
    missed_by(
        barrier,
        scripts.map(|(name, ops)| PoolHistory::new(name, 7, ops)),
    )
}

fn missed_by(barrier: Barrier, mut histories: impl Iterator<Item = PoolHistory>) -> Option<String> {
    histories.find_map(|history| {
        let name = &history.name;
        // Some failures need two certain names to be lost: those histories get more states.
        let states = match name.as_str() {
            "keys, replaced" => 4000,
            "collected, killed" => 16_000,
            _ => 400,
        };
        let mut explorer = Explorer::new(7, states);
        explorer.threads = 2;
        explorer.failures_max = 1;
        explorer.without = Some(barrier);
        let report = explorer.explore(&history);
        let failure = report.failures.first()?;
        Some(format!("{name}: {}", failure.message))
    })
}

#[test]
fn each_barrier_is_missed() {
    let mut needless = Vec::new();
    // The barriers of the journal, of the record of its reach, and of upgrades have their own
    // histories; that of the index's copy has a canary beside its tests.
    let is_elsewhere = |barrier: &Barrier| {
        let name = format!("{barrier:?}");
        ["Journal", "Reach", "Config", "IndexCopy"]
            .iter()
            .any(|of| name.contains(of))
    };
    for barrier in Barrier::ALL.into_iter().filter(|b| !is_elsewhere(b)) {
        match missed(barrier) {
            Some(message) => println!("{barrier:?}: {message}"),
            None => needless.push(barrier),
        }
    }
    assert!(needless.is_empty(), "nobody misses {needless:?}");
}

#[test]
fn a_copy_misses_what_its_commit_needs() {
    for barrier in [
        Barrier::BlobBeforeName,
        Barrier::ContainersBeforeRoot,
        Barrier::RootBeforeAck,
    ] {
        let copies = scripts()
            .into_iter()
            .filter(|(name, _)| name.starts_with("copied"));
        // Without crashes while the pool is created and first filled.
        let history = |(name, ops)| PoolHistory {
            settled: 2,
            ..PoolHistory::new(name, 7, ops)
        };
        let message = missed_by(barrier, copies.map(history));
        println!("{barrier:?}: {message:?}");
        assert!(message.is_some(), "no copy misses {barrier:?}");
    }
}

/// A pool after some commits and a power loss that lost everything that was not durable.
fn after_a_power_loss(without: Option<Barrier>) -> Image {
    let disk = SimDisk::new();
    let disk = match without {
        Some(barrier) => disk.without(barrier),
        None => disk,
    };
    let history = History::new(Arc::clone(&disk));
    let mut process = Process::new(&disk, &history, 3);
    for op in [
        PoolOp::Init(0),
        PoolOp::Backup(What::Tree, 3),
        PoolOp::Backup(What::Image, 0),
        PoolOp::Backup(What::Stream, 0),
    ] {
        process.run(&op).expect("a healthy disk");
    }
    let recording = disk.recording();
    let mut walker = Walker::new(&recording);
    walker.advance(recording.log.len());
    CrashPoint::new(&walker).state(Plan::Nothing)
}

/// Number of reads of opening for writing.
fn reads_to_open(image: Image) -> u64 {
    let disk = SimDisk::unrecorded(image);
    let media = media(Arc::clone(&disk) as _, 9);
    Pool::open(media, None, OpenMode::Write, MEMORY_BYTES).expect("open");
    disk.counts().reads
}

#[test]
fn the_index_of_a_commit_survives_with_it() {
    let kept = reads_to_open(after_a_power_loss(None));
    let rebuilt = reads_to_open(after_a_power_loss(Some(Barrier::IndexBeforeClean)));
    assert!(
        kept + 8 < rebuilt,
        "{kept} reads, without the barrier {rebuilt}"
    );
}
