//! The page of Differentiated Storage Services: the published bars beside our runs.
//!
//! The program `evaluation` calls this.
//! Invariant: published figures are constants here; all others come from runs. Nothing is
//! calibrated.

use super::loads::{Load, Outcome, run};
use super::machine::Cache;
use crate::figures::{Table, verdict};
use classes::{Policy, PolicyError, shipped};

/// The published sizes are divided by this in the full run, and in the short one.
pub const FULL_DIVIDES: u64 = 4;
/// See [`FULL_DIVIDES`].
pub const SHORT_DIVIDES: u64 = 64;

const LOADS: [(Load, &str, f64); 3] = [
    (Load::FilePool, "file pool", 3.8),
    (Load::Mail, "mail server", 1.33),
    (Load::Untar, "untar, tar", 2.0),
];
const LADDER: [&str; 5] = ["t1", "t2", "t3", "t4", "t5"];

fn by_policy(name: &str) -> Result<Cache, PolicyError> {
    let csv = shipped::find(name).map_or("", |shipped| shipped.csv);
    Ok(Cache::Classes(Box::new(Policy::parse(csv)?)))
}

/// Returns the rows of a load: no cache, LRU, T1 to T5, and the policy that evicts by class only.
pub fn rows(load: Load, divide: u64) -> Result<Vec<(&'static str, Outcome)>, PolicyError> {
    let mut rows = vec![
        ("none", run(load, divide, Cache::None)),
        ("LRU-all", run(load, divide, Cache::LruAll)),
    ];
    for name in LADDER.into_iter().chain(["ext3"]) {
        rows.push((name, run(load, divide, by_policy(name)?)));
    }
    Ok(rows)
}

fn time_of(rows: &[(&str, Outcome)], name: &str) -> f64 {
    let row = rows.iter().find(|(of, _)| *of == name);
    row.map_or(f64::NAN, |(_, outcome)| outcome.time as f64)
}

/// Returns the tables of a run.
pub fn text(divide: u64) -> Result<String, PolicyError> {
    let mut text = format!(
        "Command: `cargo run --release -p evaluation -- classes`. Sizes are the published ones divided by {divide}: {} MiB of cache, {} MiB of memory in the host (assumed).\n",
        (3 << 10) / divide,
        256 / divide
    );
    let mut bars = Table::new(["load", "best of T1 to T5", "times LRU-all", "bar", ""]);
    for (load, name, bar) in LOADS {
        let rows = rows(load, divide)?;
        let lru = time_of(&rows, "LRU-all");
        let mut table = Table::new(["cache", "seconds", "times LRU-all", "hits, %"]);
        for (row, outcome) in &rows {
            table.row([
                (*row).to_owned(),
                format!("{:.2}", outcome.time as f64 / 1e9),
                format!("{:.2}", lru / outcome.time as f64),
                format!("{:.1}", outcome.hits()),
            ]);
        }
        let best = LADDER
            .iter()
            .map(|name| (lru / time_of(&rows, name), *name));
        let (times, best) = best.fold((0.0, ""), |a, b| if b.0 > a.0 { b } else { a });
        bars.row([
            name.to_owned(),
            best.to_owned(),
            format!("{times:.2}"),
            format!("{bar}"),
            verdict(times >= bar).to_owned(),
        ]);
        let (mib, writes) = match rows.first() {
            Some((_, first)) => (first.data_bytes >> 20, first.writes()),
            None => (0, 0.0),
        };
        text += &format!(
            "\n### {name}: {mib} MiB of files, {writes:.0} % of the requested blocks are written\n\n{}",
            table.into_text()
        );
    }
    text += &format!("\n### Bars\n\n{}", bars.into_text());
    Ok(text)
}
