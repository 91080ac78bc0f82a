//! The page of Differentiated Storage Services: the published bars beside our runs.
//!
//! The program `evaluation` calls this.
//! Invariant: published figures are constants here; all others come from runs.

use super::loads::Load;
use super::outcome::{DiskRequests, Outcome};
use super::rows::{CACHE, LRU_TIER, Measured, Sensitivity, best, find, run, sensitivities};
use super::settings::Settings;
use crate::disk::Ns;
use crate::figures::{Table, verdict};
use store::Result;

/// A load, its name, the published gain by class, and the published shares of writes, and of
/// journal, directories and metadata, %.
pub const LOADS: [(Load, &str, f64, [f64; 2]); 3] = [
    (Load::FilePool, "file pool", 3.8, [33.0, 9.0]),
    (Load::Mail, "mail server", 1.33, [86.0, 8.9]),
    (Load::Untar, "untar, tar", 2.0, [40.0, 8.1]),
];
/// Published time of the file pool with a conventional cache, seconds: the row that the disks'
/// times are calibrated on.
const BASE_SECONDS: f64 = 1228.0;
/// How far the calibrated row may be off, %.
const CALIBRATED: f64 = 5.0;

/// Results of the page.
pub struct Results {
    settings: Settings,
    /// By load.
    pub loads: Vec<Vec<Measured>>,
    /// Of a full run only, with the settings and the policy.
    sensitivities: Option<(Settings, String, Vec<Sensitivity>)>,
}

/// Runs all loads over all rows, then the sensitivities.
pub fn results(settings: &Settings, threads: usize) -> Result<Results> {
    let loads = run(settings, &LOADS.map(|(load, ..)| load), threads)?;
    let of_pool = loads.first().and_then(|rows| best(rows));
    let sensitivities = match of_pool {
        Some((row, _)) if !settings.has_few_rows => {
            let smaller = Settings {
                divide: settings.divide * 3 / 2,
                ..*settings
            };
            let all = sensitivities(&smaller, &row.stored, threads)?;
            Some((smaller, row.name.clone(), all))
        }
        _ => None,
    };
    Ok(Results {
        settings: *settings,
        loads,
        sensitivities,
    })
}

fn seconds(time: Ns) -> f64 {
    time as f64 / 1e9
}

fn time_of(rows: &[Measured], name: &str) -> f64 {
    find(rows, name).map_or(f64::NAN, |(_, outcome)| seconds(outcome.time))
}

/// Returns requests a thousand operations: all, and by use.
fn requests(outcome: &Outcome, of: &DiskRequests) -> [String; 2] {
    let each = |requests| format!("{:.0}", outcome.per_thousand(requests));
    let parts = [of.index, of.containers, of.journal].map(each);
    [each(of.all), parts.join(", ")]
}

fn table(rows: &[Measured]) -> String {
    let cache = time_of(rows, CACHE);
    let mut table = Table::new([
        "storage",
        "seconds",
        "times the cache",
        "reads without a disk, %",
        "disk reads a thousand operations",
        "of index, containers, journal",
        "disk writes",
        "of index, containers, journal",
        "waits for checkpoints, % of the time",
        "flash, capacities a day",
        "drain, s",
    ]);
    for (row, outcome) in rows {
        let name = match outcome.was_advised {
            true => row.name.clone(),
            false => format!("{} (no better advice)", row.name),
        };
        let [reads, of_reads] = requests(outcome, &outcome.disk_reads);
        let [writes, of_writes] = requests(outcome, &outcome.disk_writes);
        table.row([
            name,
            format!("{:.1}", seconds(outcome.time)),
            format!("{:.2}", cache / seconds(outcome.time)),
            format!("{:.1}", outcome.hits()),
            reads,
            of_reads,
            writes,
            of_writes,
            format!("{:.1}", outcome.waits()),
            format!("{:.1}", outcome.drive_writes),
            format!("{:.1}", seconds(outcome.drain)),
        ]);
    }
    table.into_text()
}

impl Results {
    /// Returns by how much the calibrated row is off, %.
    fn off(&self) -> f64 {
        let rows = self.loads.first().map_or(&[][..], Vec::as_slice);
        let at_full_size = time_of(rows, CACHE) * self.settings.divide as f64;
        (at_full_size / BASE_SECONDS - 1.0) * 100.0
    }

    fn bars(&self) -> String {
        let mut table = Table::new(["bar", "ours", "published", "", "", "best policy"]);
        for ((_, name, bar, _), rows) in LOADS.iter().zip(&self.loads) {
            let (policy, time) = match best(rows) {
                Some((row, outcome)) => (row.by_class.unwrap_or(""), seconds(outcome.time)),
                None => ("", f64::NAN),
            };
            let mut judge = |than: &str, other: f64, published: String, least: f64| {
                let times = other / time;
                table.row([
                    format!("{name}: by class, times {than}"),
                    format!("{times:.3}"),
                    published,
                    format!(">= {least:.3}"),
                    verdict(times >= least).to_owned(),
                    policy.to_owned(),
                ]);
            };
            let (cache, tier) = (time_of(rows, CACHE), time_of(rows, LRU_TIER));
            judge("the conventional cache", cache, bar.to_string(), *bar);
            judge("the tier without a policy", tier, String::new(), 1.0);
        }
        if !self.settings.has_few_rows {
            let off = self.off().abs();
            table.row([
                "calibrated row: off by, percent".to_owned(),
                format!("{off:.3}"),
                String::new(),
                format!("<= {CALIBRATED:.3}"),
                verdict(off <= CALIBRATED).to_owned(),
                String::new(),
            ]);
        }
        table.into_text()
    }

    fn free_parameters(&self) -> String {
        let Some((settings, policy, all)) = &self.sensitivities else {
            return String::new();
        };
        let mut table = Table::new([
            "changed",
            "conventional cache, s",
            "tier without a policy, s",
            "best policy, s",
            "it, times the cache",
            "it, times the tier",
        ]);
        for Sensitivity { name, outcomes } in all {
            let [cache, tier, best] = outcomes.map(|outcome| seconds(outcome.time));
            table.row([
                (*name).to_owned(),
                format!("{cache:.1}"),
                format!("{tier:.1}"),
                format!("{best:.1}"),
                format!("{:.2}", cache / best),
                format!("{:.2}", tier / best),
            ]);
        }
        format!(
            "\n### Sensitivity to each free parameter\n\nThe file pool with sizes divided by {}, and {} MiB of memory. The best policy is the one of the table above: {policy}.\n\n{}",
            settings.divide,
            settings.memory_bytes() >> 20,
            table.into_text()
        )
    }

    /// Returns the tables.
    pub fn text(&self) -> String {
        let settings = &self.settings;
        let mut text = format!(
            "Command: `cargo run --release -p evaluation -- classes`. Sizes are the published ones divided by {}: {} MiB of flash; {} MiB of memory, of which a server has {}; at least {} capacities of the flash were written before the measured round. With a tier the journal is on the flash, unless the row says otherwise. The disks take {:.2} times the data sheet's times.\n",
            settings.divide,
            settings.flash_bytes() >> 20,
            settings.memory_bytes() >> 20,
            settings.server_bytes() >> 20,
            settings.before,
            settings.slowness as f64 / 100.0,
        );
        if !settings.has_few_rows {
            text += &format!(
                "With them the conventional cache needs {:.0} s for the file pool at full size; published: {BASE_SECONDS:.0} s ({:+.1} %).\n\n![Times the conventional cache, by row](classes.svg)\n",
                BASE_SECONDS * (1.0 + self.off() / 100.0),
                self.off()
            );
        }
        for ((_, name, _, [writes, special]), rows) in LOADS.iter().zip(&self.loads) {
            if let Some((_, cache)) = find(rows, CACHE) {
                text += &format!(
                    "\n### {name}: {} MiB of files; {:.0} % of the blocks are written (published: {writes}), {:.1} % are journal, directories and metadata (published: {special}); {:.1} capacities were written before\n\n{}",
                    cache.data_bytes >> 20,
                    cache.writes(),
                    cache.special(),
                    cache.before,
                    table(rows)
                );
            }
        }
        text += &self.free_parameters();
        text += &format!("\n### Bars\n\n{}", self.bars());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::rows;
    use super::*;

    fn measured(seconds_of: impl Fn(&str) -> u64) -> Vec<Measured> {
        let rows = rows(false).expect("policies that ship");
        let outcome = |name: &str| Outcome {
            time: seconds_of(name) * 1_000_000_000,
            operations: 1000,
            disk_reads: DiskRequests {
                all: 70,
                index: 40,
                containers: 20,
                journal: 10,
            },
            was_advised: !name.ends_with("advised"),
            ..Outcome::default()
        };
        let rows = rows.into_iter();
        rows.map(|row| (row.clone(), outcome(&row.name))).collect()
    }

    #[test]
    fn bars_are_of_the_best_row_by_class() {
        let of = measured(|name| match name {
            CACHE => 153,
            LRU_TIER => 80,
            "Quintet, t2" => 40,
            // Faster, but not by class.
            "disks alone" => 10,
            _ => 200,
        });
        let results = Results {
            settings: Settings::FULL,
            loads: vec![of.clone(), of.clone(), of],
            sensitivities: None,
        };
        let text = results.text();
        for line in [
            "| file pool: by class, times the conventional cache | 3.825 | 3.8 | >= 3.800 | PASS | t2 |",
            "| file pool: by class, times the tier without a policy | 2.000 |  | >= 1.000 | PASS | t2 |",
            "| calibrated row: off by, percent | 0.326 |  | <= 5.000 | PASS |  |",
            "| Quintet, t2 | 40.0 | 3.83 | 100.0 | 70 | 40, 20, 10 | 0 | 0, 0, 0 | 0.0 | 0.0 | 0.0 |",
            "| Quintet, advised (no better advice) | 200.0 | 0.77 |",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }

    #[test]
    fn sensitivities_say_both_factors() {
        let outcomes = [30, 20, 10].map(|seconds| Outcome {
            time: seconds * 1_000_000_000,
            ..Outcome::default()
        });
        let name = "nothing";
        let all = vec![Sensitivity { name, outcomes }];
        let results = Results {
            settings: Settings::FULL,
            loads: Vec::new(),
            sensitivities: Some((Settings::FULL, "Quintet, t2".to_owned(), all)),
        };
        let text = results.free_parameters();
        let line = "| nothing | 30.0 | 20.0 | 10.0 | 3.00 | 2.00 |";
        assert!(text.contains(line), "{text}");
    }
}
