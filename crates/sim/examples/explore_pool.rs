//! The long crash exploration of a pool: rounds of scripted and random histories, and a table.
//!
//! Run with `cargo run --release -p sim --example explore_pool -- --states 100000 --seed 1`; the
//! result stands in `docs/evaluation/crash.md`. Ends with 1 when a state is wrong.

use sim::pool_histories::{PoolHistory, scripts};
use sim::{Explorer, Report};
use std::time::{Duration, Instant};

/// States of one history in one round, those in recovery not counted.
const STATES_PER_HISTORY: usize = 1500;
/// Random histories of a round.
const RANDOM_PER_ROUND: u64 = 12;
/// Operations of a random history.
const RANDOM_OPS: usize = 14;

/// What was asked for.
struct Wanted {
    states: usize,
    seed: u64,
    threads: usize,
}

impl Wanted {
    fn from_arguments() -> Self {
        let mut wanted = Self {
            states: 100_000,
            seed: 1,
            threads: 2,
        };
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        for pair in arguments.chunks(2) {
            let value = pair.get(1).and_then(|text| text.parse::<u64>().ok());
            match (pair[0].as_str(), value) {
                ("--states", Some(value)) => wanted.states = value as usize,
                ("--seed", Some(value)) => wanted.seed = value,
                ("--threads", Some(value)) => wanted.threads = value as usize,
                _ => panic!("--states N, --seed N, --threads N"),
            }
        }
        wanted
    }
}

/// One line of the table.
#[derive(Default)]
struct Row {
    name: String,
    histories: usize,
    report: Report,
    failures: usize,
    time: Duration,
}

impl Row {
    fn add(&mut self, report: Report, time: Duration) {
        self.histories += 1;
        self.failures += report.failures.len();
        self.time += time;
        self.report += report;
    }

    fn states(&self) -> usize {
        self.report.states + self.report.recovery_states
    }

    fn print(&self) {
        let Report {
            points,
            states,
            recovery_states,
            duplicates,
            pending_max,
            ..
        } = self.report;
        println!(
            "| {} | {} | {points} | {states} | {recovery_states} | {duplicates} | {pending_max} | {} | {:.0} |",
            self.name,
            self.histories,
            self.failures,
            self.time.as_secs_f64()
        );
    }
}

fn explore(history: &PoolHistory, threads: usize) -> Report {
    let mut explorer = Explorer::new(history.seed, STATES_PER_HISTORY);
    explorer.recovery_depth = 1;
    explorer.recovery_every = 24;
    explorer.recovery_states_max = 24;
    explorer.threads = threads;
    let report = explorer.explore(history);
    for failure in &report.failures {
        println!("{} {:?}\n{failure}", history.name, history.ops);
    }
    report
}

fn histories(round: u64, seed: u64) -> Vec<PoolHistory> {
    let seed = seed * 1_000_000 + round * 1000;
    let scripted = scripts().into_iter();
    let scripted = scripted.map(|(name, ops)| PoolHistory::new(name, seed, ops));
    let random = (1..=RANDOM_PER_ROUND).map(|n| PoolHistory::random(seed + n, RANDOM_OPS));
    scripted.chain(random).collect()
}

fn main() {
    let wanted = Wanted::from_arguments();
    let mut rows: Vec<Row> = Vec::new();
    for round in 0.. {
        for history in histories(round, wanted.seed) {
            let start = Instant::now();
            let report = explore(&history, wanted.threads);
            let known = rows.iter().position(|row| row.name == history.name);
            let at = known.unwrap_or_else(|| {
                rows.push(Row {
                    name: history.name.clone(),
                    ..Row::default()
                });
                rows.len() - 1
            });
            rows[at].add(report, start.elapsed());
        }
        if rows.iter().map(Row::states).sum::<usize>() >= wanted.states {
            break;
        }
    }
    println!("seed {}, {} threads", wanted.seed, wanted.threads);
    println!();
    println!(
        "| history | runs | crash points | states | states in recovery | known before | most pending | failures | s |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut whole = Row {
        name: "all".to_owned(),
        ..Row::default()
    };
    for row in rows {
        row.print();
        let histories = whole.histories + row.histories;
        whole.add(row.report, row.time);
        whole.histories = histories;
    }
    whole.print();
    if whole.failures > 0 {
        std::process::exit(1);
    }
}
