//! Power losses in a pool's life: the seeded set that runs with every test.
//!
//! The documented long run is `cargo run --release -p sim --example explore_pool`; what it found is
//! in `docs/evaluation/crash.md`.

use sim::pool_histories::{PoolHistory, scripts};
use sim::{Explorer, Report};

fn explore(history: &PoolHistory, states: usize) -> Report {
    let mut explorer = Explorer::new(history.seed, states);
    explorer.recovery_depth = 1;
    explorer.recovery_every = 6;
    explorer.recovery_states_max = 24;
    explorer.threads = 2;
    explorer.explore(history)
}

#[test]
fn scripted_histories_survive() {
    for (name, ops) in scripts() {
        let report = explore(&PoolHistory::new(name, 1, ops), 300);
        report.expect_none();
        assert!(report.states >= 200, "{name}: {report:?}");
        assert!(report.recovery_states >= 200, "{name}: {report:?}");
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
