//! The long crash exploration of volumes with a tier, and perhaps the journal, on a fast device, with
//! faults of that device.
//!
//! Run with `cargo run --release -p sim --example explore_fast_journals -- --states 100000
//! --seed 1`; the result is in `docs/evaluation/crash.md`. Exits with 1 if a state is wrong.

use format::journal_place::JournalPlace;
use sim::rounds::{Named, explore_rounds};
use sim::volume_histories::{FastJournalHistory, fast_journal_scripts};

/// Random histories of a round, and operations of each.
const RANDOM_PER_ROUND: u64 = 12;
const RANDOM_OPS: usize = 30;

fn main() {
    explore_rounds(|seed| {
        // Odd seeds have encrypted pools.
        let scripted = [seed, seed + 1].into_iter().flat_map(|seed| {
            let scripts = fast_journal_scripts().into_iter();
            scripts.map(move |(name, place, ops)| FastJournalHistory::new(name, seed, place, ops))
        });
        let random = (2..RANDOM_PER_ROUND + 2).map(|n| {
            let places = [
                JournalPlace::Fast,
                JournalPlace::Mirrored,
                JournalPlace::Pool,
            ];
            let place = places[n as usize % 3];
            FastJournalHistory::random(seed + n, place, RANDOM_OPS)
        });
        let named = |history: FastJournalHistory| Named {
            name: history.name.clone(),
            plan: format!("{:?}", history.ops),
            seed: history.seed,
            scenario: history,
        };
        scripted.chain(random).map(named).collect()
    });
}
