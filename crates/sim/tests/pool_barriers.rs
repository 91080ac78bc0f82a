//! Every barrier of the pool is needed: without it, some crash state is wrong.
//!
//! Invariant: `media::Barrier::ALL` is the list; a barrier that nobody misses fails this test and
//! should go. The other direction: no sync without a name, which the types see to.

use media::Barrier;
use sim::Explorer;
use sim::pool_histories::{PoolHistory, scripts};

/// The first failure that some history shows without this barrier.
fn missed(barrier: Barrier) -> Option<String> {
    scripts().into_iter().find_map(|(name, ops)| {
        let mut explorer = Explorer::new(7, 600);
        explorer.threads = 2;
        explorer.failures_max = 1;
        explorer.without = Some(barrier);
        let report = explorer.explore(&PoolHistory::new(name, 7, ops));
        let failure = report.failures.first()?;
        Some(format!("{name}: {}", failure.message))
    })
}

#[test]
fn each_barrier_is_missed() {
    let mut needless = Vec::new();
    for barrier in Barrier::ALL {
        match missed(barrier) {
            Some(message) => println!("{barrier:?}: {message}"),
            None => needless.push(barrier),
        }
    }
    assert!(needless.is_empty(), "nobody misses {needless:?}");
}
