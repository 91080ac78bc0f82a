//! Power losses while volumes are written, snapshotted, cloned, resized: the seeded set that runs
//! with every test.
//!
//! The documented long run is `cargo run --release -p sim --example explore_volumes`; its findings
//! are in `docs/evaluation/crash.md`.

use sim::volume_histories::{VolumeHistory, volume_scripts};
use sim::{Explorer, Report};

fn explore(history: &VolumeHistory, states: usize) -> Report {
    let mut explorer = Explorer::new(history.seed, states);
    explorer.recovery_depth = 1;
    explorer.recovery_every = 12;
    explorer.recovery_states_max = 8;
    explorer.threads = 2;
    explorer.explore(history)
}

#[test]
fn scripted_histories_survive() {
    for (name, ops) in volume_scripts() {
        for seed in [1, 2] {
            let report = explore(&VolumeHistory::new(name, seed, ops.clone()), 150);
            report.expect_none();
            assert!(report.states >= 60, "{name}: {report:?}");
        }
    }
}

#[test]
fn random_histories_survive() {
    let mut whole = Report::default();
    for seed in 1..=24 {
        let history = VolumeHistory::random(seed, 24);
        let report = explore(&history, 100);
        if !report.failures.is_empty() {
            println!("{:?}", history.ops);
        }
        report.expect_none();
        whole += report;
    }
    assert!(whole.states > 1500, "{whole:?}");
}
