//! Power losses in a journal's life: the seeded set that runs with every test.
//!
//! The documented long run is `cargo run --release -p sim --example explore_journal`.

use media::Barrier;
use sim::journal_histories::JournalHistory;
use sim::{Explorer, Report};

fn explore(history: &JournalHistory, states: usize, without: Option<Barrier>) -> Report {
    let mut explorer = Explorer::new(history.seed, states);
    explorer.recovery_depth = 2;
    explorer.recovery_every = 8;
    explorer.recovery_states_max = 24;
    explorer.threads = 2;
    explorer.without = without;
    explorer.explore(history)
}

#[test]
fn scripted_histories_survive() {
    for history in JournalHistory::scripted(1) {
        let report = explore(&history, 400, None);
        report.expect_none();
        println!("{}: {report:?}", history.name);
        assert!(report.states >= 100, "{}: {report:?}", history.name);
        assert!(
            report.recovery_states >= 100,
            "{}: {report:?}",
            history.name
        );
    }
}

#[test]
fn random_histories_survive() {
    let mut whole = Report::default();
    for seed in 1..=32 {
        let history = JournalHistory::random(seed, 24);
        let report = explore(&history, 150, None);
        if !report.failures.is_empty() {
            println!("{:?}", history.ops);
        }
        report.expect_none();
        whole += report;
    }
    println!("{whole:?}");
    assert!(whole.states > 2000, "{whole:?}");
}

#[test]
fn each_barrier_is_missed() {
    for barrier in [
        Barrier::JournalSlotsBeforeUse,
        Barrier::JournalReplayBeforeUse,
        Barrier::JournalBeforeNextSlot,
        Barrier::JournalBeforeAck,
        // Without `DirectoryBeforeNames`: in these histories the pool's directory is synced once
        // more for the names of the record of the journal's reach. `explore` detects its absence.
        Barrier::ReachNamesBeforeUse,
        Barrier::ReachBeforeAck,
    ] {
        let missed = JournalHistory::scripted(1).iter().find_map(|history| {
            let report = explore(history, 400, Some(barrier));
            let failure = report.failures.first()?;
            Some(format!("{}: {}", history.name, failure.message))
        });
        println!("{barrier:?}: {}", missed.as_deref().unwrap_or("nobody"));
        assert!(missed.is_some(), "nobody misses {barrier:?}");
    }
}
