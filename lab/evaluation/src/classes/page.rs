//! The page of Differentiated Storage Services: the published bars beside our runs.
//!
//! The program `evaluation` calls this.
//! Invariant: published figures are constants here; all others come from runs.

use super::loads::{Load, Outcome, Stored, measure};
use super::settings::Settings;
use crate::figures::{Table, verdict};
use crate::maintenance::grid::map;
use classes::{Policy, shipped};
use std::sync::Arc;
use store::{Result, StoreError, StoreErrorKind};

/// A load, its name, the published gain by class, and the published share of journal, directories
/// and metadata, %.
const LOADS: [(Load, &str, f64, f64); 3] = [
    (Load::FilePool, "file pool", 3.8, 9.0),
    (Load::Mail, "mail server", 1.33, 8.9),
    (Load::Untar, "untar, tar", 2.0, 8.1),
];
/// The row that the bars divide by.
const CACHE: &str = "conventional LRU cache";
/// The row of the tier without a policy.
const LRU_TIER: &str = "Quintet, tier, no policy";
const BY_CLASS: [&str; 8] = [
    "t1",
    "t2",
    "t3",
    "t4",
    "t5",
    "ext3",
    "successor",
    "adaptive",
];
/// Capacities that may be written a day, hundredths: what ships, and no limit.
const SHIPPED: u32 = 300;
const UNLIMITED: u32 = u32::MAX;

type Row = (String, Stored);

fn policy(name: &str) -> Result<Arc<Policy>> {
    let invalid = |text: String| StoreError::new(StoreErrorKind::Invalid, text);
    let found = shipped::find(name).ok_or_else(|| invalid(format!("no policy {name}")))?;
    let policy = Policy::parse(found.csv).map_err(|e| invalid(e.to_string()))?;
    Ok(Arc::new(policy))
}

fn quintet(policy: Option<Arc<Policy>>, journal_on_fast: bool, limit: u32) -> Stored {
    Stored::Quintet {
        has_tier: true,
        journal_on_fast,
        policy,
        daily_writes_hundredths: limit,
    }
}

/// Returns the rows of each load, or those that the short run has.
pub fn rows(has_few: bool) -> Result<Vec<Row>> {
    let without = Stored::Quintet {
        has_tier: false,
        journal_on_fast: false,
        policy: None,
        daily_writes_hundredths: SHIPPED,
    };
    let mut rows: Vec<Row> = vec![
        ("disks alone".to_owned(), Stored::Disks),
        (CACHE.to_owned(), Stored::Cache),
        ("Quintet, no tier".to_owned(), without),
        (LRU_TIER.to_owned(), quintet(None, true, SHIPPED)),
    ];
    if has_few {
        let of = quintet(Some(policy("adaptive")?), true, SHIPPED);
        rows.push(("Quintet, adaptive".to_owned(), of));
        return Ok(rows);
    }
    for name in BY_CLASS {
        let of = quintet(Some(policy(name)?), true, SHIPPED);
        rows.push((format!("Quintet, {name}"), of));
    }
    for name in ["t5", "adaptive"] {
        let policy = policy(name)?;
        rows.push((
            format!("Quintet, {name}, journal in the pool"),
            quintet(Some(Arc::clone(&policy)), false, SHIPPED),
        ));
        rows.push((
            format!("Quintet, {name}, flash writes without a limit"),
            quintet(Some(policy), true, UNLIMITED),
        ));
    }
    Ok(rows)
}

/// Runs all loads over all rows, on as many threads.
pub fn run(settings: &Settings, threads: usize) -> Result<Vec<Vec<(String, Outcome)>>> {
    let rows = rows(settings.has_few_rows)?;
    let cells: Vec<(usize, usize)> = (0..LOADS.len())
        .flat_map(|load| (0..rows.len()).map(move |row| (load, row)))
        .collect();
    let outcomes = map(&cells, threads, |(load, row)| {
        measure(LOADS[*load].0, settings, &rows[*row].1)
    });
    let mut all: Vec<Vec<(String, Outcome)>> = vec![Vec::new(); LOADS.len()];
    for ((load, row), outcome) in outcomes {
        all[load].push((rows[row].0.clone(), outcome?));
    }
    Ok(all)
}

fn time_of(rows: &[(String, Outcome)], name: &str) -> f64 {
    let row = rows.iter().find(|(of, _)| of == name);
    row.map_or(f64::NAN, |(_, outcome)| outcome.time as f64)
}

/// Returns the tables of a run.
pub fn text(settings: &Settings, threads: usize) -> Result<String> {
    let all = run(settings, threads)?;
    let mut text = format!(
        "Command: `cargo run --release -p evaluation -- classes`. Sizes are the published ones divided by {}: {} MiB of flash; {} MiB of memory, of which a server has {}; {} rounds before the measured one. With a tier the journal is on the flash, unless the row says otherwise.\n",
        settings.divide,
        settings.flash_bytes() >> 20,
        settings.memory_bytes() >> 20,
        settings.server_bytes() >> 20,
        settings.rounds,
    );
    let mut bars = Table::new(["bar", "ours", "published", "", ""]);
    for ((_, name, bar, special), rows) in LOADS.iter().zip(&all) {
        let cache = time_of(rows, CACHE);
        let mut table = Table::new([
            "storage",
            "seconds",
            "times the cache",
            "reads without a disk, %",
            "flash, capacities a day",
            "drain, s",
        ]);
        for (row, outcome) in rows {
            table.row([
                row.clone(),
                format!("{:.1}", outcome.time as f64 / 1e9),
                format!("{:.2}", cache / outcome.time as f64),
                format!("{:.1}", outcome.hits()),
                format!("{:.1}", outcome.drive_writes),
                format!("{:.1}", outcome.drain as f64 / 1e9),
            ]);
        }
        let by_class = |row: &&(String, Outcome)| {
            BY_CLASS
                .iter()
                .any(|policy| row.0 == format!("Quintet, {policy}"))
        };
        let best = rows
            .iter()
            .filter(by_class)
            .min_by_key(|(_, outcome)| outcome.time);
        let (best, time) = best.map_or(("", f64::NAN), |(row, o)| (row.as_str(), o.time as f64));
        let tier = time_of(rows, LRU_TIER);
        let mut judge = |than: &str, times: f64, published: String, least: f64| {
            bars.row([
                format!("{name}: {best}, times {than}"),
                format!("{times:.3}"),
                published,
                format!(">= {least:.3}"),
                verdict(times >= least).to_owned(),
            ]);
        };
        judge(
            "the conventional cache",
            cache / time,
            bar.to_string(),
            *bar,
        );
        judge("the tier without a policy", tier / time, String::new(), 1.0);
        let first = rows
            .iter()
            .find(|(row, _)| row == CACHE)
            .map(|(_, outcome)| outcome);
        if let Some(first) = first {
            text += &format!(
                "\n### {name}: {} MiB of files, {:.0} % of the blocks are written, {:.1} % are journal, directories and metadata (published: {special}); {:.1} capacities were written before\n\n{}",
                first.data_bytes >> 20,
                first.writes(),
                first.special(),
                first.before,
                table.into_text()
            );
        }
    }
    text += &format!("\n### Bars\n\n{}", bars.into_text());
    Ok(text)
}
