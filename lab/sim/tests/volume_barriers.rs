//! Every barrier of volumes is needed: without it, some crash state is wrong.
//!
//! Invariant: the other barriers are in `pool_barriers` and in the journal's own tests.

use media::Barrier;
use sim::Explorer;
use sim::volume_histories::{VolumeHistory, volume_scripts};

/// Returns the first failure of any history without this barrier.
fn missed(barrier: Barrier, only: Option<&str>) -> Option<String> {
    let scripts = volume_scripts().into_iter();
    let mut scripts = scripts.filter(|(name, _)| only.is_none_or(|only| only == *name));
    scripts.find_map(|(name, ops)| {
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
        match missed(barrier, None) {
            Some(message) => println!("{barrier:?}: {message}"),
            None => needless.push(barrier),
        }
    }
    assert!(needless.is_empty(), "nobody misses {needless:?}");
}

/// Copies that are needed, because gc has deleted the originals, must be durable before their
/// commit, and the commit before its acknowledgement.
#[test]
fn copies_of_defragmentation_miss_their_barriers() {
    for barrier in [Barrier::ContainersBeforeRoot, Barrier::RootBeforeAck] {
        let message = missed(barrier, Some("defragmented"));
        assert!(message.is_some(), "{barrier:?} is not missed");
    }
}
