//! Every barrier that volumes rely on is needed: without it, some crash state is wrong.
//!
//! Invariant: those that are not here are in `pool_barriers` and in the journal's own tests.

use media::Barrier;
use sim::Explorer;
use sim::volume_histories::{VolumeHistory, volume_scripts};

/// The first failure that some history shows without this barrier.
fn missed(barrier: Barrier) -> Option<String> {
    volume_scripts().into_iter().find_map(|(name, ops)| {
        let mut explorer = Explorer::new(7, 1200);
        explorer.threads = 2;
        explorer.failures_max = 1;
        explorer.without = Some(barrier);
        let report = explorer.explore(&VolumeHistory::new(name, 7, ops));
        let failure = report.failures.first()?;
        Some(format!("{name}: {}", failure.message))
    })
}

#[test]
fn each_barrier_is_missed() {
    let mut needless = Vec::new();
    for barrier in [
        Barrier::RootBeforeJournal,
        Barrier::ContainersBeforeJournal,
        Barrier::JournalSlotsBeforeUse,
        Barrier::JournalBeforeNextSlot,
        Barrier::JournalBeforeAck,
        Barrier::ContainersBeforeRoot,
        Barrier::RootBeforeAck,
    ] {
        match missed(barrier) {
            Some(message) => println!("{barrier:?}: {message}"),
            None => needless.push(barrier),
        }
    }
    assert!(needless.is_empty(), "nobody misses {needless:?}");
}
