//! The long crash exploration of writable volumes.
//!
//! Run with `cargo run --release -p sim --example explore_volumes -- --states 100000 --seed 1`; the
//! result is in `docs/evaluation/crash.md`. Exits with 1 if a state is wrong.

use sim::rounds::{Named, explore_rounds};
use sim::volume_histories::{VolumeHistory, volume_scripts};

/// Random histories of a round, and operations of each.
const RANDOM_PER_ROUND: u64 = 24;
const RANDOM_OPS: usize = 30;

fn main() {
    explore_rounds(|seed| {
        // Odd seeds have encrypted pools.
        let scripted = [seed, seed + 1].into_iter().flat_map(|seed| {
            let scripts = volume_scripts().into_iter();
            scripts.map(move |(name, ops)| VolumeHistory::new(name, seed, ops))
        });
        let random = (2..RANDOM_PER_ROUND + 2).map(|n| VolumeHistory::random(seed + n, RANDOM_OPS));
        let named = |history: VolumeHistory| Named {
            name: history.name.clone(),
            plan: format!("{:?}", history.ops),
            seed: history.seed,
            scenario: history,
        };
        scripted.chain(random).map(named).collect()
    });
}
