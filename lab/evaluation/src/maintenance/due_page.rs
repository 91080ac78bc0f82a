//! The table of deadlines: tasks that share what they read, beside tasks that do not.
//!
//! The program `evaluation` calls this.
//! Invariant: the published figure is a constant here; all others come from the runs.

use super::grid::{DUE_OVERLAPS, DUE_TASKS, DUE_UTILISATIONS, DueCell, DueGrid};
use super::settings::{Kind, Settings};
use super::world::DueOutcome;
use crate::disk::SECOND;
use crate::figures::{Table, verdict};

/// Reads that sharing saves on ten nodes of HDFS, percent (DINGO, OSDI'26).
const SAVED_PERCENT: f64 = 26.0;
/// Maximum factor by which tasks may raise the web server's 99th percentile.
const HARM_MAX: f64 = 1.2;

const fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Backup => "copy",
        Kind::HostBackup => "host backup",
        Kind::Scrub => "scrub",
        Kind::Defragment => "defrag",
        Kind::Collect => "gc",
    }
}

/// Returns the bytes read for each byte of finished work.
fn effort(outcome: &DueOutcome) -> f64 {
    outcome.read_bytes as f64 / outcome.work_bytes.max(1) as f64
}

struct Row {
    apart: DueOutcome,
    together: DueOutcome,
    alone_p99: f64,
}

impl Row {
    fn of(grid: &DueGrid, (overlap, utilisation, count): (u64, u64, usize)) -> Option<Self> {
        let at = |cell: DueCell| grid.get(&cell).copied();
        Some(Self {
            apart: at((overlap, utilisation, count, false))?,
            together: at((overlap, utilisation, count, true))?,
            alone_p99: at((overlap, utilisation, 0, false))?.web_p99 as f64,
        })
    }

    /// Returns the reads that sharing saved for the same work, percent.
    fn saved(&self) -> f64 {
        (1.0 - effort(&self.together) / effort(&self.apart).max(f64::MIN_POSITIVE)) * 100.0
    }

    fn harm(&self, outcome: &DueOutcome) -> String {
        if self.alone_p99 == 0.0 {
            return String::new();
        }
        let harm = outcome.web_p99 as f64 / self.alone_p99;
        let mark = if harm > HARM_MAX { " short" } else { "" };
        format!("{harm:.2}{mark}")
    }
}

/// Returns the table, and the bars below it.
pub fn tables(grid: &DueGrid) -> String {
    let mut table = Table::new([
        "overlap",
        "busy",
        "tasks",
        "read, not shared, GB",
        "shared, GB",
        "saved for the same work",
        "deadlines met, not shared",
        "shared",
        "web server's p99 to alone, not shared",
        "shared",
    ]);
    let (mut saved_least, mut met) = (f64::INFINITY, [(0, 0); 2]);
    let mut harm_most: f64 = 0.0;
    for overlap in DUE_OVERLAPS {
        for utilisation in DUE_UTILISATIONS {
            for count in 2..=DUE_TASKS.len() {
                let Some(row) = Row::of(grid, (overlap, utilisation, count)) else {
                    continue;
                };
                let gb = |outcome: &DueOutcome| format!("{:.1}", outcome.read_bytes as f64 / 1e9);
                let of = |(met, all): (usize, usize)| format!("{met} of {all}");
                let saved = row.saved();
                saved_least = saved_least.min(saved);
                for ((met, all), one) in met.iter_mut().zip([&row.apart, &row.together]) {
                    (*met, *all) = (*met + one.met.0, *all + one.met.1);
                }
                if row.alone_p99 > 0.0 {
                    harm_most = harm_most.max(row.together.web_p99 as f64 / row.alone_p99);
                }
                let mark = if saved < SAVED_PERCENT { " short" } else { "" };
                table.row([
                    format!("{overlap} %"),
                    format!("{utilisation} %"),
                    count.to_string(),
                    gb(&row.apart),
                    gb(&row.together),
                    format!("{saved:.0} %{mark}"),
                    of(row.apart.met),
                    of(row.together.met),
                    row.harm(&row.apart),
                    row.harm(&row.together),
                ]);
            }
        }
    }
    let [apart, together] = met;
    let percent = |(met, all): (usize, usize)| met as f64 * 100.0 / all.max(1) as f64;
    let mut bars = Table::new(["bar", "wanted", "here", ""]);
    bars.row([
        "reads saved, the least of all rows".to_owned(),
        format!(">= {SAVED_PERCENT:.0} %"),
        format!("{saved_least:.0} %"),
        verdict(saved_least >= SAVED_PERCENT).to_owned(),
    ]);
    bars.row([
        "deadlines met, all rows".to_owned(),
        format!("> {:.0} % (not shared), and all", percent(apart)),
        format!("{:.0} %", percent(together)),
        verdict(together.0 == together.1).to_owned(),
    ]);
    bars.row([
        "web server's p99 to alone, the most of all rows".to_owned(),
        format!("<= {HARM_MAX}"),
        format!("{harm_most:.2}"),
        verdict(harm_most <= HARM_MAX).to_owned(),
    ]);
    format!("{}\n{}", table.into_text(), bars.into_text())
}

/// Returns this part of the page.
pub fn text(settings: &Settings, grid: &DueGrid) -> String {
    let time = 2 * settings.run;
    let named = DUE_TASKS
        .map(|(kind, part, of)| format!("{} {} s", name(kind), time / of * part / SECOND))
        .join(", ");
    format!(
        "### Deadlines\n\n\
         The same world and the scheduler that ships (`crates/qos`), with a deadline for each task: {named}; the first two of these tasks, the first three, all four. A\n\
         copy and a scrub read all files, gc the {} % that are sparse (it writes half of each), defrag 20 % (it writes them again). The scheduler learns each second what each\n\
         task has left, as in a server: what is left in the time that is left is its share of the busy disk, the highest first, half of the disk for all of them at most; idle time\n\
         is used as it comes. Shared: each task takes what others read, clients or tasks, from the page cache (Duet). Not shared: the same deadlines without page events.\n\
         Here the scrub's reads are offered to the others as well, and gc's reads to the scrub; how far the store's own tasks do that is measured [below](#by-the-tasks-that-ship).\n\
         A row saves what it reads less for each byte of finished work. Published (DINGO, OSDI'26): 26 % less on ten nodes of HDFS.\n\n{}",
        settings.sparse_percent,
        tables(grid)
    )
}
