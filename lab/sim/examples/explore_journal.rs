//! The long crash exploration of a journal.
//!
//! Run with `cargo run --release -p sim --example explore_journal -- --states 100000 --seed 1`; the
//! result is in `docs/evaluation/crash.md`. Exits with 1 if a state is wrong.

use sim::journal_histories::JournalHistory;
use sim::rounds::{Named, explore_rounds};

/// Random histories of a round, and operations of each.
const RANDOM_PER_ROUND: u64 = 24;
const RANDOM_OPS: usize = 40;

fn main() {
    explore_rounds(|seed| {
        let scripted = JournalHistory::scripted(seed).into_iter();
        let random = (1..=RANDOM_PER_ROUND).map(|n| JournalHistory::random(seed + n, RANDOM_OPS));
        let named = |history: JournalHistory| Named {
            name: history.name.clone(),
            plan: format!("{:?}", history.ops),
            seed: history.seed,
            scenario: history,
        };
        scripted.chain(random).map(named).collect()
    });
}
