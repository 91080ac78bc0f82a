//! Duet's page: the published table beside ours, the saved I/O, and what was calibrated.
//!
//! The program `evaluation` calls this.
//! Invariant: published figures are constants here; all others come from the grid.

use super::due_page;
use super::grid::{DueGrid, Grid, OVERLAPS, Tasks, UTILISATIONS, Variant, highest, run, run_due};
use super::settings::{Order, Picks, Settings};
use crate::figures::{Line, Panel, Table, verdict};
use std::collections::BTreeMap;

/// Published utilisations up to which the tasks finish in time, percent; `None`: none.
type Published = [Option<u64>; 4];

/// Variants in the order of the paper's columns, each with its cells by overlap.
pub const PUBLISHED: [(Variant, &str, Published); 4] = [
    ((Tasks::Backup, false), "backup", [Some(40); 4]),
    (
        (Tasks::Backup, true),
        "backup + Duet",
        [Some(50), Some(60), Some(70), Some(100)],
    ),
    ((Tasks::Three, false), "three", [None; 4]),
    (
        (Tasks::Three, true),
        "three + Duet",
        [Some(30), Some(40), Some(40), Some(50)],
    ),
];

/// Range of maintenance's rate, MB/s, that follows from the published cells: utilisation, minimum,
/// upper limit.
pub const IDLE_RATES: [(u64, f64, f64); 5] = [
    (40, 25.0, f64::INFINITY),
    (50, 18.3, 25.0),
    (60, 12.4, 18.3),
    (70, 6.8, 12.3),
    (80, 1.4, 6.5),
];

/// Share of I/O that three tasks save, percent: on an idle disk, on a busy one.
const SAVED_PERCENT: (f64, f64) = (48.0, 80.0);

/// Returns the words of a cell.
pub(crate) fn said(utilisation: Option<u64>) -> String {
    utilisation.map_or("never".to_owned(), |percent| format!("{percent} %"))
}

/// The bar: at most one step of ten points below the published cell.
pub(crate) fn is_within_a_step(ours: Option<u64>, published: Option<u64>) -> bool {
    published.is_none_or(|published| ours.is_some_and(|ours| ours + 10 >= published))
}

fn cells(grid: &Grid) -> String {
    let names = PUBLISHED.iter().map(|(_, name, _)| (*name).to_owned());
    let mut table = Table::new(std::iter::once("overlap".to_owned()).chain(names));
    for (nth, overlap) in OVERLAPS.into_iter().enumerate() {
        let mut row = vec![format!("{overlap} %")];
        for (variant, _, published) in &PUBLISHED {
            let published = published.get(nth).copied().flatten();
            let ours = highest(grid, *variant, overlap);
            let mark = match is_within_a_step(ours, published) {
                true => "",
                false => " short",
            };
            row.push(format!("{} ({}){mark}", said(ours), said(published)));
        }
        table.row(row);
    }
    table.into_text()
}

/// Returns maintenance's rate at a utilisation, MB/s: of the backup without events.
pub fn idle_rate(grid: &Grid, utilisation: u64) -> f64 {
    let cell = grid.get(&((Tasks::Backup, false), 25, utilisation));
    cell.map_or(0.0, |outcome| outcome.maintenance_rate() / 1e6)
}

fn idle_rates(grid: &Grid) -> String {
    let mut table = Table::new([
        "utilisation",
        "backup alone, MB/s",
        "wanted *(derived)*",
        "",
    ]);
    for utilisation in UTILISATIONS {
        let rate = idle_rate(grid, utilisation);
        let wanted = IDLE_RATES.iter().find(|(at, ..)| *at == utilisation);
        let (wanted, mark) = match wanted {
            Some((_, least, below)) => {
                let passed = (*least..*below).contains(&rate);
                let wanted = match below.is_finite() {
                    true => format!("{least} to {below}"),
                    false => format!(">= {least}"),
                };
                (wanted, verdict(passed))
            }
            None => (String::new(), ""),
        };
        table.row([
            format!("{utilisation} %"),
            format!("{rate:.1}"),
            wanted,
            mark.to_owned(),
        ]);
    }
    table.into_text()
}

fn saved(grid: &Grid) -> String {
    let columns = UTILISATIONS.map(|utilisation| format!("{utilisation} %"));
    let mut table = Table::new(std::iter::once("overlap".to_owned()).chain(columns));
    for overlap in OVERLAPS {
        let mut row = vec![format!("{overlap} %")];
        for utilisation in UTILISATIONS {
            let cell = grid.get(&((Tasks::Three, true), overlap, utilisation));
            row.push(cell.map_or(String::new(), |o| {
                let open = if o.is_complete { "" } else { "\\*" };
                format!("{:.0}{open}", o.saved() * 100.0)
            }));
        }
        table.row(row);
    }
    table.into_text()
}

fn saved_bars(grid: &Grid) -> String {
    let at = |utilisation| {
        let cell = grid.get(&((Tasks::Three, true), 100, utilisation));
        cell.map_or(0.0, |outcome| outcome.saved() * 100.0)
    };
    let busiest = highest(grid, (Tasks::Three, true), 100).unwrap_or(0);
    let mut table = Table::new(["bar", "wanted", "here", ""]);
    let idle = at(0);
    table.row([
        "three tasks, idle disk".to_owned(),
        format!(">= {:.0} %", SAVED_PERCENT.0),
        format!("{idle:.0} %"),
        verdict(idle >= SAVED_PERCENT.0).to_owned(),
    ]);
    for (utilisation, why) in [
        (busiest, "the busiest that they end on"),
        (80, "not done in time"),
    ] {
        let busy = at(utilisation);
        table.row([
            format!("three tasks, busy disk (all files hot, {utilisation} %: {why})"),
            format!(">= {:.0} %", SAVED_PERCENT.1),
            format!("{busy:.0} %"),
            verdict(busy >= SAVED_PERCENT.1).to_owned(),
        ]);
    }
    table.into_text()
}

/// The variants, and the web server alone, for the product's scheduler.
pub const BY_PRODUCT: [Variant; 5] = [
    (Tasks::Nothing, false),
    (Tasks::Backup, false),
    (Tasks::Backup, true),
    (Tasks::Three, false),
    (Tasks::Three, true),
];

/// Utilisations for which the page shows the web server's latency.
const LATENCY_AT: [u64; 3] = [25, 50, 75];

/// Returns the factor by which maintenance raised the web server's 99th percentile, at the highest
/// utilisation that was run and is not above `utilisation`.
fn harm(grid: &Grid, variant: Variant, overlap: u64, utilisation: u64) -> Option<f64> {
    let nearest = UTILISATIONS.into_iter().rfind(|at| *at <= utilisation)?;
    let p99 = |variant| Some(grid.get(&(variant, overlap, nearest))?.web_p99 as f64);
    Some(p99(variant)? / p99((Tasks::Nothing, false))?.max(1.0))
}

fn by_product(grid: &Grid) -> String {
    let mut table = Table::new([
        "overlap",
        "tasks",
        "done in time up to (published)",
        "web server's p99 to alone, at 20 %",
        "50 %",
        "70 %",
    ]);
    for (nth, overlap) in OVERLAPS.into_iter().enumerate() {
        for (variant, name, published) in &PUBLISHED {
            let published = published.get(nth).copied().flatten();
            let ours = highest(grid, *variant, overlap);
            let mark = match is_within_a_step(ours, published) {
                true => "",
                false => " short",
            };
            let harms = LATENCY_AT.map(|at| {
                let harm = harm(grid, *variant, overlap, at);
                harm.map_or(String::new(), |harm| {
                    let mark = if harm > 1.2 { " short" } else { "" };
                    format!("{harm:.2}{mark}")
                })
            });
            let head = [
                format!("{overlap} %"),
                (*name).to_owned(),
                format!("{} ({}){mark}", said(ours), said(published)),
            ];
            table.row(head.into_iter().chain(harms));
        }
    }
    table.into_text()
}

/// Results of variations: the highest utilisations, by variant and overlap.
pub type Highest = BTreeMap<(Variant, u64), Option<u64>>;

fn others(host_backup: &Highest, at_random: &Highest) -> String {
    let columns = [
        "overlap",
        "host backup + Duet, in rotation",
        "backup + Duet, at random",
        "three + Duet, at random",
    ];
    let mut table = Table::new(columns);
    for overlap in OVERLAPS {
        let cell = |from: &Highest, tasks| {
            let found = from.get(&((tasks, true), overlap));
            found.map_or("not run".to_owned(), |highest| said(*highest))
        };
        table.row([
            format!("{overlap} %"),
            cell(host_backup, Tasks::HostBackup),
            cell(at_random, Tasks::Backup),
            cell(at_random, Tasks::Three),
        ]);
    }
    table.into_text()
}

/// Returns the page's text.
pub fn text(
    settings: &Settings,
    in_rotation: &Grid,
    (product, due): (&Grid, &DueGrid),
    (host_backup, at_random): (&Highest, &Highest),
) -> String {
    let seconds = |ns: u64| ns / crate::disk::SECOND;
    let ms = |ns: u64| ns / crate::disk::MILLISECOND;
    let setting = format!(
        "Command: `cargo run --release -p evaluation -- duet`. Virtual time; the same on every run. Real: the driver, sessions and table of\n\
         `crates/duet`, the page cache with its eviction (`crates/page_cache`, a 32nd of the bytes). Modelled: one disk ({} GB, 10,000 turns a minute,\n\
         {} MB/s at the edge, mean seek {:.1} ms), {} files of 1 MiB in directories of {}, files of a directory in any order on the disk, a page cache of\n\
         {} MiB (assumed: the sources at hand do not say), a web server that reads whole files and appends 128 KiB to a log for each (written back every\n\
         {} s); requests come at random times (Poisson), at 100 % without a pause. Maintenance waits at idle priority, {} s\n\
         after {} s of warm-up; drivers fetch every {} ms.",
        settings.disk.capacity / 1_000_000_000,
        settings.disk.outer_rate / 1_000_000,
        (settings.disk.seek_settle as f64 + settings.disk.seek_curve as f64 * 8.0 / 15.0) / 1e6,
        settings.files,
        settings.directory_files,
        settings.cache_bytes >> 20,
        seconds(settings.write_back),
        seconds(settings.run),
        seconds(settings.warm_up),
        ms(settings.fetch),
    );
    let calibrated = format!(
        "Calibrated, on the column of the backup alone and on the row of 25 %, and on nothing else but the derived rates below: {} ms of grace after a\n\
         request of the web server's, {} ms of a task's own work between files, {} % of the files in fragments (what a defragmentation rewrites; fragments do\n\
         not slow reads here). All other cells are predictions.",
        ms(settings.grace),
        ms(settings.between_files),
        settings.fragmented_percent,
    );
    let notes = "Files are picked in rotation, as Filebench does. Tasks may take files in any order; what waits for the disk does not keep a task from files \
         that\nare in memory. Without events a scrub reads past the page cache; with them it reads through it, so that others find what it read: the scrub of \
         the\nstore does not do that yet. A defragmentation has 64 MiB of writes waiting at most.";
    let product_note = "The same experiment, but who goes to the disk is decided by `crates/qos` with its defaults for a disk: the wait before maintenance begins\nis \
         learned, not calibrated, and a task that reads in order goes on until the web server comes. The tasks are still those of this page: files, not\n\
         the store's containers. The web server's latency is that of reads that need the disk; its bar is 1.2. \
         Published: idle priority, without a bound on\nthe web server's latency.";
    let others_note = "At random, some hot files are read late or never, and each task has to read them itself. A host backup that wants files nearly in order (100 \
         ahead,\none at a time) finds next to nothing in a page cache that holds a twentieth of the files.";
    format!(
        "## Beside a web server, on a disk\n\n{setting}\n\n{calibrated}\n\n{notes}\n\n\
         ### Highest utilisation at which maintenance is done in time (published)\n\n{}\n![Files done in time](duet.svg)\n\n\
         ### Maintenance's rate in what the web server leaves\n\n{}\n\
         ### I/O that three tasks save, percent of what they have done (\\*: not done in time)\n\n{}\n{}\n\
         ### By the scheduler that ships\n\n{product_note}\n\n{}\n\
         {}\n\
         ### Variations\n\n{others_note}\n\n{}",
        cells(in_rotation),
        idle_rates(in_rotation),
        saved(in_rotation),
        saved_bars(in_rotation),
        by_product(product),
        due_page::text(settings, due),
        others(host_backup, at_random),
    )
}

/// Runs the experiment at a fiftieth of its size and returns that part of the page. A test compares
/// it with the committed page, so that the page cannot drift from the code.
pub fn short_text() -> String {
    let variants = PUBLISHED.map(|(variant, ..)| variant);
    let grid = run(&Settings::SMALL, Picks::InRotation, &variants, 2);
    let shipped = Settings {
        order: Order::Product,
        ..Settings::SMALL
    };
    let product = run(&shipped, Picks::InRotation, &BY_PRODUCT, 2);
    format!(
        "## At a fiftieth of the size\n\n\
         Command: `cargo run --release -p evaluation -- short`. A test repeats this run. Files, memory, disk and time are a fiftieth, so\n\
         the figures are not those above: a run of 36 s has few requests to learn from.\n\n{}\n\
         By the scheduler that ships:\n\n{}\n\
         Deadlines:\n\n{}",
        cells(&grid),
        by_product(&product),
        due_page::tables(&run_due(&Settings::SMALL, 2)),
    )
}

/// Returns plots of the files done in time, by utilisation.
pub fn panels(grid: &Grid) -> Vec<Panel> {
    let colours = ["#64748b", "#c2410c", "#64748b", "#c2410c"];
    let line = |overlap: u64, nth: usize| {
        let (variant, name, _) = PUBLISHED.get(nth)?;
        let point = |utilisation: u64| {
            let outcome = grid.get(&(*variant, overlap, utilisation))?;
            Some((utilisation as f64, outcome.done_per_mille as f64 / 10.0))
        };
        Some(Line {
            name: (*name).to_owned(),
            colour: colours.get(nth).copied().unwrap_or("#000"),
            is_dashed: variant.0 == Tasks::Three,
            points: UTILISATIONS.into_iter().filter_map(point).collect(),
        })
    };
    let panel = |overlap| Panel {
        title: format!("Done in time, % of the files; overlap {overlap} %"),
        x_name: "utilisation by the web server, %".to_owned(),
        x_max: 100.0,
        y_max: 100.0,
        lines: (0..PUBLISHED.len())
            .filter_map(|nth| line(overlap, nth))
            .collect(),
    };
    OVERLAPS.into_iter().map(panel).collect()
}
