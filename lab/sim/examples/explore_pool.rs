//! The long crash exploration of a pool.
//!
//! Run with `cargo run --release -p sim --example explore_pool -- --states 100000 --seed 1`; the
//! result is in `docs/evaluation/crash.md`. Exits with 1 if a state is wrong.

use sim::pool_histories::{PoolHistory, scripts};
use sim::rounds::{Named, explore_rounds};

/// Random histories of a round, and operations of each.
const RANDOM_PER_ROUND: u64 = 12;
const RANDOM_OPS: usize = 14;

fn main() {
    explore_rounds(|seed| {
        let scripted = scripts().into_iter();
        let scripted = scripted.map(|(name, ops)| PoolHistory::new(name, seed, ops));
        let random = (1..=RANDOM_PER_ROUND).map(|n| PoolHistory::random(seed + n, RANDOM_OPS));
        let named = |history: PoolHistory| Named {
            name: history.name.clone(),
            plan: format!("{:?}", history.ops),
            seed: history.seed,
            scenario: history,
        };
        scripted.chain(random).map(named).collect()
    });
}
