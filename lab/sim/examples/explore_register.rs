//! Measures the speed of the explorer: the toy register over some seeds, in states per second.
//!
//! Run with `cargo run --release -p sim --example explore_register [seeds]`.

#[path = "../tests/register/mod.rs"]
mod register;

use register::{Counting, Mistake};
use sim::{Expected, Explorer, History, Report, Scenario, SimDisk};
use std::sync::Arc;
use std::time::Instant;

/// The same history without checks: the cost of the states alone.
struct Unchecked(Counting);

impl Scenario for Unchecked {
    type Op = u64;
    type Model = u64;

    fn apply(&self, model: &mut u64, op: &u64) {
        self.0.apply(model, op);
    }

    fn run(&self, disk: &Arc<SimDisk>, history: &History<u64>) -> Result<(), String> {
        self.0.run(disk, history)
    }

    fn check(&self, _: &Arc<SimDisk>, _: &Expected<Self>) -> Result<(), String> {
        Ok(())
    }
}

fn main() {
    let seeds = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(8);
    measure("unchecked, 1 thread", seeds, 1, 0, Unchecked);
    measure("1 thread", seeds, 1, 0, |counting| counting);
    measure("2 threads", seeds, 2, 0, |counting| counting);
    measure("recovery, 2 threads", seeds, 2, 1, |counting| counting);
}

fn measure<S: Scenario>(
    name: &str,
    seeds: u64,
    threads: usize,
    recovery_depth: u32,
    scenario: impl Fn(Counting) -> S,
) {
    let start = Instant::now();
    let mut report = Report::default();
    for seed in 0..seeds {
        let mut explorer = Explorer::new(seed, 20_000);
        explorer.threads = threads;
        explorer.recovery_depth = recovery_depth;
        report += explorer.explore(&scenario(Counting {
            seed,
            puts: 60,
            mistake: Mistake::None,
            kills: true,
        }));
    }
    report.expect_none();
    let seconds = start.elapsed().as_secs_f64();
    let states = report.states + report.recovery_states;
    println!(
        "{name}: {states} states ({} in recovery) at {} crash points, {} duplicates, at most {} \
         pending, {:.0} states/s",
        report.recovery_states,
        report.points,
        report.duplicates,
        report.pending_max,
        states as f64 / seconds,
    );
}
