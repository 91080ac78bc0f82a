//! The part of Duet's page about the tasks that ship, and a short version that a test repeats.
//!
//! The program `evaluation` calls this.
//! Invariant: no measured figure is typed in. Published ones are those of the first table.

use super::runs::{Experiment, Grid, Tasks, Variant, harm, highest};
use super::settings::Settings;
use crate::disk::SECOND;
use crate::figures::Table;
use crate::maintenance::grid::{self, OVERLAPS, UTILISATIONS};
use crate::maintenance::page::{PUBLISHED, is_within_a_step, said};
use store::Result;

/// Rows of the table for each overlap.
const ROWS: [(Tasks, &str); 3] = [
    (Tasks::Backup, "replication"),
    (Tasks::Three, "scrub, replication, defragmentation"),
    (Tasks::Four, "the three and gc"),
];
/// Bar of the web server's latency.
const HARM_MOST: f64 = 1.2;
/// Overlaps and utilisations of the short version.
const SHORT_OVERLAPS: [u64; 2] = [25, 100];
const SHORT_UTILISATIONS: [u64; 3] = [0, 20, 60];

fn variants() -> Vec<Variant> {
    let both = |(tasks, _): (Tasks, &str)| [(tasks, false), (tasks, true)];
    ROWS.into_iter().flat_map(both).collect()
}

/// Returns the published cell of a variant; `None`: nothing like it was published.
fn published((tasks, has_events): Variant, overlap: u64) -> Option<Option<u64>> {
    let like = match tasks {
        Tasks::Backup => grid::Tasks::Backup,
        Tasks::Three => grid::Tasks::Three,
        Tasks::Nothing | Tasks::Four => return None,
    };
    let nth = OVERLAPS.iter().position(|one| *one == overlap)?;
    let mut columns = PUBLISHED.iter();
    let (.., cells) = columns.find(|(variant, ..)| *variant == (like, has_events))?;
    cells.get(nth).copied()
}

/// Returns a cell with the highest utilisation of a variant.
fn reached(grid: &Grid, variant: Variant, overlap: u64) -> String {
    let ours = highest(grid, variant, overlap);
    let Some(published) = published(variant, overlap) else {
        return said(ours);
    };
    let mark = match is_within_a_step(ours, published) {
        true => "",
        false => " short",
    };
    format!("{} ({}){mark}", said(ours), said(published))
}

/// Returns a cell with what tasks with events saved, and did to the web server, at the highest
/// utilisation that they finish at, or at another one.
fn beside(grid: &Grid, tasks: Tasks, overlap: u64, utilisation: Option<u64>) -> [String; 2] {
    let cell = |utilisation| (tasks, true, overlap, utilisation);
    let found = utilisation.and_then(|at| Some((at, grid.get(&cell(at))?)));
    let Some((at, outcome)) = found else {
        return [String::new(), String::new()];
    };
    let saved = format!("{:.0} %", outcome.saved() * 100.0);
    let harm = match harm(grid, cell(at)) {
        Some(harm) => {
            let mark = if harm > HARM_MOST { " short" } else { "" };
            format!("{harm:.2}{mark}")
        }
        None => "nobody reads".to_owned(),
    };
    [saved, harm]
}

fn table(grid: &Grid, overlaps: &[u64]) -> String {
    let mut table = Table::new([
        "overlap",
        "tasks",
        "done in time up to, alone (published)",
        "with Duet (published)",
        "saved, idle disk",
        "saved there",
        "web server's p99 to alone, there",
        "at 20 %",
    ]);
    for overlap in overlaps {
        for (tasks, name) in ROWS {
            let there = highest(grid, (tasks, true), *overlap);
            let [idle, _] = beside(grid, tasks, *overlap, Some(0));
            let [saved, harm] = beside(grid, tasks, *overlap, there);
            let [_, at_20] = beside(grid, tasks, *overlap, Some(20));
            table.row([
                format!("{overlap} %"),
                name.to_owned(),
                reached(grid, (tasks, false), *overlap),
                reached(grid, (tasks, true), *overlap),
                idle,
                saved,
                harm,
                at_20,
            ]);
        }
    }
    table.into_text()
}

/// Runs the experiment and returns the text.
pub fn text(settings: &Settings, threads: usize) -> Result<String> {
    let experiment = Experiment::new(*settings, &OVERLAPS, threads)?;
    let where_ = (&OVERLAPS[..], &UTILISATIONS[..]);
    let mut grid = experiment.search(&variants(), where_, threads)?;
    // Cells that a search may have passed.
    let mut more = Vec::new();
    for overlap in OVERLAPS {
        for (tasks, _) in ROWS {
            let cells = [0, 20].map(|utilisation| (tasks, true, overlap, utilisation));
            more.extend(cells.into_iter().filter(|cell| !grid.contains_key(cell)));
        }
        let alone = (Tasks::Nothing, false, overlap, 20);
        more.extend(Some(alone).filter(|cell| !grid.contains_key(cell)));
    }
    grid.extend(experiment.all(&more, threads)?);
    let intro = format!(
        "Command: `cargo run --release -p evaluation -- tasks`. Virtual time; the same on every run. Real: the tasks of `crates/maintenance` and\n\
         their controller, a pool with its volumes, journal, page cache and events, the scheduler of `crates/qos` with its defaults for a disk. \
         Modelled:\nthe disk of the first table, the web server, and time. The machine is the {}th part of the published one: {} files of 1 MiB in a \
         volume\nwith chunks of 4 KiB, {} MiB of memory for volumes, a window of {:.0} s, a disk whose seeks take as long.",
        settings.scale,
        settings.files,
        settings.memory_bytes() >> 20,
        settings.run() as f64 / SECOND as f64,
    );
    let setting = format!(
        "The web server reads whole files through the page cache of volumes and appends 128 KiB to a log in another volume for each (flushed every 5 s,\n\
         checkpointed as a server does). {} % of the files are in fragments (nine pieces: reading one costs seeks, so the\n\
         web server's latencies are those of the other files), {} % lie in containers that are half\n\
         garbage. Replication sends a snapshot of all files to another machine, whose disk takes no time. Tasks without Duet are those of a command\n\
         without a server: they do not learn what is in memory.",
        settings.fragmented_percent, settings.sparse_percent,
    );
    let notes = "Calibrated, on the row of replication alone and on nothing else: the share of files in fragments (20 % made each file read cost 40 ms). The \
                 share of\nfiles beside garbage is chosen, memory is what the first table assumes; all other cells are predictions. Not modelled: the time that code \
                 computes,\nand the cache of the system below, but its read-ahead: contiguous reads of a client's request are one request at the disk. \
                 Code reads or writes\nat once and then takes its time: others see it a few milliseconds early. `crates/device` waits with real \
                 threads, so its decisions about pieces\nof 64 and 256 KiB are repeated here. A 99th percentile is that of some hundred requests. Without readers \
                 (0 %) no latency can be short.";
    Ok(format!(
        "## By the tasks that ship\n\n{intro}\n\n{setting}\n\n{notes}\n\n{}",
        table(&grid, &OVERLAPS)
    ))
}

/// Runs a few cells at a smaller scale and returns that part of the page.
pub fn short_text() -> Result<String> {
    let settings = Settings::SHORT;
    let experiment = Experiment::new(settings, &SHORT_OVERLAPS, 2)?;
    let mut cells = Vec::new();
    for overlap in SHORT_OVERLAPS {
        for utilisation in SHORT_UTILISATIONS {
            cells.push((Tasks::Nothing, false, overlap, utilisation));
            for (tasks, has_events) in variants() {
                cells.push((tasks, has_events, overlap, utilisation));
            }
        }
    }
    let grid = experiment.all(&cells, 2)?;
    Ok(format!(
        "## By the tasks that ship, smaller\n\n\
         Part of `cargo run --release -p evaluation -- short`. A test repeats this run: {} files, a window of {:.1} s, utilisations of 0, 20 and 60 %.\n\
         So few requests teach the scheduler little: the figures are not those above.\n\n{}",
        settings.files,
        settings.run() as f64 / SECOND as f64,
        table(&grid, &SHORT_OVERLAPS)
    ))
}
