//! Long explorations: rounds of many histories up to a number of states, and a table. The examples
//! `explore_pool`, `explore_volumes` and `explore_journal` call this.
//!
//! Invariant: the table has everything that was explored, and every failure.

use crate::{Explorer, Report, Scenario};
use std::time::{Duration, Instant};

/// States of one history in one round, without those in recovery.
const STATES_PER_HISTORY: usize = 1500;

/// A history with its entries in the table.
pub struct Named<S> {
    /// Histories of one name share a line.
    pub name: String,
    /// Description for reports of failures.
    pub plan: String,
    /// Selects crash points.
    pub seed: u64,
    /// The scenario.
    pub scenario: S,
}

/// Arguments of the process.
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

fn explore<S: Scenario>(history: &Named<S>, threads: usize) -> Report {
    let mut explorer = Explorer::new(history.seed, STATES_PER_HISTORY);
    explorer.recovery_depth = 1;
    explorer.recovery_every = 24;
    explorer.recovery_states_max = 24;
    explorer.threads = threads;
    let report = explorer.explore(&history.scenario);
    for failure in &report.failures {
        println!("{} {}\n{failure}", history.name, history.plan);
    }
    report
}

/// Explores the histories of each round (`histories` gets its first seed) until the arguments of
/// the process are satisfied. Prints the table; exits with 1 if a state is wrong.
pub fn explore_rounds<S: Scenario>(histories: impl Fn(u64) -> Vec<Named<S>>) {
    let wanted = Wanted::from_arguments();
    let mut rows: Vec<Row> = Vec::new();
    for round in 0u64.. {
        for history in histories(wanted.seed * 1_000_000 + round * 1000) {
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
