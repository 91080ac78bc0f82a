//! Power losses with a tier, and perhaps the journal, on a fast device, and faults of that device
//! beside them: the seeded set that runs with every test.

use format::journal_place::JournalPlace;
use media::Barrier;
use sim::volume_histories::{FastJournalHistory, fast_journal_scripts};
use sim::{Explorer, Report};

const PLACES: [JournalPlace; 3] = [
    JournalPlace::Fast,
    JournalPlace::Mirrored,
    JournalPlace::Pool,
];

fn explore(history: &FastJournalHistory, states: usize) -> Report {
    let mut explorer = Explorer::new(history.seed, states);
    explorer.recovery_depth = 1;
    explorer.recovery_every = 24;
    explorer.recovery_states_max = 3;
    explorer.threads = 2;
    explorer.explore(history)
}

#[test]
fn scripted_histories_survive_and_losses_are_reported() {
    for (name, place, ops) in fast_journal_scripts() {
        for seed in [1, 2] {
            let history = FastJournalHistory::new(name, seed, place, ops.clone());
            let report = explore(&history, 60);
            report.expect_none();
            assert!(report.states >= 25, "{name}: {report:?}");
            assert!(history.hits() > 0, "{name}: the tier was never read");
        }
    }
}

#[test]
fn random_histories_survive_and_losses_are_reported() {
    let mut whole = Report::default();
    for seed in 1..=6 {
        let place = PLACES[seed as usize % 3];
        let report = explore(&FastJournalHistory::random(seed, place, 24), 40);
        report.expect_none();
        whole += report;
    }
    assert!(whole.states > 120, "{whole:?}");
}

/// Returns the first failure of any history without this barrier.
fn missed(barrier: Barrier) -> Option<String> {
    fast_journal_scripts()
        .into_iter()
        .find_map(|(name, place, ops)| {
            let mut explorer = Explorer::new(7, 1000);
            explorer.threads = 2;
            explorer.failures_max = 1;
            explorer.without = Some(barrier);
            let report = explorer.explore(&FastJournalHistory::new(name, 7, place, ops));
            let failure = report.failures.first()?;
            Some(format!("{name}: {}", failure.message))
        })
}

#[test]
fn each_barrier_is_missed() {
    let mut needless = Vec::new();
    for barrier in [
        Barrier::JournalDeviceBeforePlace,
        Barrier::JournalPlaceBeforeUse,
        Barrier::JournalSlotsBeforeUse,
        Barrier::JournalBeforeAck,
        Barrier::ReachBeforeAck,
    ] {
        match missed(barrier) {
            Some(message) => println!("{barrier:?}: {message}"),
            None => needless.push(barrier),
        }
    }
    assert!(needless.is_empty(), "nobody misses {needless:?}");
}
