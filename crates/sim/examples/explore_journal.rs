//! The long crash exploration of a journal: scripted and random histories until there are so many
//! states.
//!
//! Run with `cargo run --release -p sim --example explore_journal -- STATES [SEED]`; the result
//! stands in `docs/evaluation/crash.md`. Ends with 1 when a state is wrong.

use sim::journal_histories::JournalHistory;
use sim::{Explorer, Report};
use std::collections::BTreeMap;

/// Random histories for each round of the scripted ones.
const RANDOM_PER_ROUND: u64 = 24;
const RANDOM_OPS: usize = 40;
const STATES_PER_HISTORY: usize = 1500;

fn explore(history: &JournalHistory) -> Report {
    let mut explorer = Explorer::new(history.seed, STATES_PER_HISTORY);
    explorer.recovery_depth = 2;
    explorer.recovery_every = 16;
    explorer.recovery_states_max = 48;
    explorer.threads = 2;
    let report = explorer.explore(history);
    for failure in &report.failures {
        println!("{} {:?}\n{failure}", history.name, history.ops);
    }
    report
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let mut number = |default| numbers.next().map_or(default, |n| n.expect("a number"));
    let (wanted, seed) = (number(100_000), number(1));
    let mut rows: BTreeMap<String, (usize, Report)> = BTreeMap::new();
    let mut whole = Report::default();
    for round in 0.. {
        let first = seed * 1_000_000 + round * 1000;
        let random = (1..=RANDOM_PER_ROUND).map(|n| JournalHistory::random(first + n, RANDOM_OPS));
        for history in JournalHistory::scripted(first).into_iter().chain(random) {
            let report = explore(&history);
            let (count, row) = rows.entry(history.name.clone()).or_default();
            *count += 1;
            *row += report.clone();
            whole += report;
        }
        if (whole.states + whole.recovery_states) as u64 >= wanted {
            break;
        }
    }
    println!(
        "| history | runs | crash points | states | states in recovery | known before | most pending | failures |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let runs = rows.values().map(|(count, _)| count).sum();
    rows.insert("~ all".to_owned(), (runs, whole.clone()));
    for (name, (count, report)) in &rows {
        let Report {
            points,
            states,
            recovery_states,
            duplicates,
            pending_max,
            failures,
        } = report;
        println!(
            "| {name} | {count} | {points} | {states} | {recovery_states} | {duplicates} | {pending_max} | {} |",
            failures.len()
        );
    }
    if !whole.failures.is_empty() {
        std::process::exit(1);
    }
}
