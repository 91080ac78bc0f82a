//! The page of ageing: restore speed of the newest generation, by generation and by maintenance.
//!
//! The program `evaluation` calls this.
//! Invariant: all figures come from runs.

use super::history::PIECE_BYTES;
use super::pool::{Generation, MaintenanceMode, Settings, run};
use crate::figures::{Line, Panel, Table, verdict};
use std::collections::BTreeMap;

/// Minimum speed of later generations, relative to the first.
const BAR: f64 = 0.8;
const MAINTENANCE_MODES: [(MaintenanceMode, &str, &str); 6] = [
    (MaintenanceMode::None, "none, all kept", "#64748b"),
    (
        MaintenanceMode::Collected,
        "gc in its planned order",
        "#0d9488",
    ),
    (MaintenanceMode::ByOwner, "gc by owner", "#2563eb"),
    (
        MaintenanceMode::ByOwnerLarge,
        "gc by owner, 64 MiB for gc",
        "#93c5fd",
    ),
    (MaintenanceMode::Defragmented, "defrag and gc", "#c2410c"),
    (
        MaintenanceMode::Rewritten,
        "every seventh rewritten, gc",
        "#7c3aed",
    ),
];

/// Generations by maintenance.
pub type Histories = BTreeMap<MaintenanceMode, Vec<Generation>>;

/// Runs all histories.
pub fn histories(settings: &Settings) -> store::Result<Histories> {
    let one = |(mode, ..): (MaintenanceMode, &str, &str)| Ok((mode, run(settings, mode)?));
    MAINTENANCE_MODES.into_iter().map(one).collect()
}

/// Returns the last generation's speed relative to the first.
pub fn kept_speed(generations: &[Generation]) -> f64 {
    match generations {
        [first, .., last] => last.speed() / first.speed(),
        _ => 1.0,
    }
}

/// Returns the slowest later generation's speed relative to the first.
pub fn least_speed(generations: &[Generation]) -> f64 {
    let first = generations.first().map_or(1.0, Generation::speed);
    let later = generations.iter().skip(1).map(Generation::speed);
    later.fold(f64::INFINITY, f64::min) / first
}

fn speeds(histories: &Histories, settings: &Settings) -> String {
    let shown =
        (1..=settings.generations).filter(|nth| nth % 7 <= 1 || *nth + 1 == settings.generations);
    let shown: Vec<u64> = shown.collect();
    let names = shown.iter().map(u64::to_string);
    let mut table = Table::new(std::iter::once("after each generation".to_owned()).chain(names));
    for (mode, name, _) in MAINTENANCE_MODES {
        let Some(all) = histories.get(&mode) else {
            continue;
        };
        let speed = |nth: &u64| {
            all.get(*nth as usize - 1)
                .map_or(String::new(), |g| format!("{:.1}", g.speed()))
        };
        table.row(std::iter::once(name.to_owned()).chain(shown.iter().map(speed)));
    }
    table.into_text()
}

fn ends(histories: &Histories) -> String {
    let columns = [
        "after each generation",
        "last generation, of the first one's speed",
        "slowest generation",
        "reads",
        "jumps",
        "read, MB",
        "stored, MB",
        "copied by defrag, MB a generation",
        "by gc",
        "read by gc",
        "",
    ];
    let mut table = Table::new(columns);
    for (mode, name, _) in MAINTENANCE_MODES {
        let Some((all, last)) = histories
            .get(&mode)
            .and_then(|all| Some((all, all.last()?)))
        else {
            continue;
        };
        let a_generation = |of: fn(&Generation) -> u64| {
            let copied: u64 = all.iter().map(of).sum();
            format!("{:.1}", copied as f64 / 1e6 / all.len() as f64)
        };
        let (kept, least) = (kept_speed(all), least_speed(all));
        table.row([
            name.to_owned(),
            format!("{kept:.2}"),
            format!("{least:.2}"),
            last.restore.reads.to_string(),
            last.restore.jumps.to_string(),
            format!("{:.1}", last.restore.bytes as f64 / 1e6),
            format!("{:.1}", last.stored_bytes as f64 / 1e6),
            a_generation(|g| g.copied.defragmented),
            a_generation(|g| g.copied.collected),
            a_generation(|g| g.copied.read_to_collect),
            verdict(least >= BAR).to_owned(),
        ]);
    }
    table.into_text()
}

/// Returns the page's text.
pub fn text(settings: &Settings, histories: &Histories) -> String {
    format!(
        "## Restore of the newest generation\n\n\
         Command: `cargo run --release -p evaluation -- ageing`. The real store, its collector and its defragmentation, over a simulated disk; every read of a\n\
         container by a restore is timed on the disk of [Duet's page](duet.md), one after another; containers lie in the order in which they were written, what is\n\
         deleted leaves a hole. A stream of {} MB; from one generation to the next 1 % of its pieces of {} KiB go, 1 % move, as many are new, anywhere. Regions of 128\n\
         KiB, containers of 4 MiB, 16 MiB of memory, nothing compressed. With gc the last {} generations are kept, and nothing waits in the trash; it orders copies by\n\
         owner ([decision 34](../decisions/0034-collections-by-owner.md)) except in the row that says otherwise; defrag is the one\n\
         without a trace, of the newest generation, and may move what others share; rewritten is `defrag --whole` of it, in every seventh generation. Every restore was compared with what was backed up.\n\n\
         MB/s by generation:\n\n{}\n![Restore speed by generation](ageing.svg)\n\n\
         At the end (bar: >= {BAR} of the first generation's speed in every later one):\n\n{}",
        settings.pieces * PIECE_BYTES as u64 / 1_000_000,
        PIECE_BYTES >> 10,
        settings.kept,
        speeds(histories, settings),
        ends(histories),
    )
}

/// Runs short histories and returns that part of the page. A test compares it with the committed
/// page, so that the page cannot drift from the code.
pub fn short_text() -> store::Result<String> {
    let settings = Settings::SHORT;
    Ok(format!(
        "## {} generations of {} pieces\n\n\
         Command: `cargo run --release -p evaluation -- short`. A test repeats this run.\n\n{}",
        settings.generations,
        settings.pieces,
        ends(&histories(&settings)?),
    ))
}

/// Returns plots of the restore speed by generation.
pub fn panels(settings: &Settings, histories: &Histories) -> Vec<Panel> {
    let line = |(mode, name, colour): (MaintenanceMode, &str, &'static str)| {
        let all = histories.get(&mode)?;
        let points = (1..).zip(all).map(|(nth, g)| (f64::from(nth), g.speed()));
        Some(Line {
            name: name.to_owned(),
            colour,
            is_dashed: false,
            points: points.collect(),
        })
    };
    vec![Panel {
        title: "Restore of the newest generation, MB/s".to_owned(),
        x_name: "generation".to_owned(),
        x_max: settings.generations as f64,
        y_max: 120.0,
        lines: MAINTENANCE_MODES.into_iter().filter_map(line).collect(),
    }]
}
