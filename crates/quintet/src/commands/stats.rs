//! `stats`: shows how much is stored, and the effect of deduplication and compression.
//! [`super::run`] calls this.
//!
//! Invariant: it reads metadata only.

use super::invocation::Invocation;
use super::known_snapshots::KnownSnapshots;
use anyhow::bail;
use browsing::choice::{SnapshotFilter, choose_several};
use browsing::listing;
use command_line::{StatsArgs, StatsBy};
use store::{OpenMode, SpaceCounts};
use terminal::calendar;
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::names::short_id;
use terminal::sizes;
use terminal::table::Table;
use units::count;

pub(super) fn run(invocation: &Invocation, args: &StatsArgs) -> anyhow::Result<Exit> {
    match args.by {
        StatsBy::Pool => pool(invocation, args),
        StatsBy::Snapshot => snapshots(invocation, args),
    }
}

fn pool(invocation: &Invocation, args: &StatsArgs) -> anyhow::Result<Exit> {
    if !SnapshotFilter::new(&args.filter)?.is_empty() {
        bail!("filters need --by snapshot, because snapshots share data");
    }
    let pool = invocation.open(OpenMode::Read)?;
    let all = pool.snapshots()?;
    let snapshots = all.len() as u64;
    let incomplete = all.iter().filter(|s| !s.missed.is_nothing()).count() as u64;
    let SpaceCounts {
        containers,
        stored_bytes,
        unique_bytes,
        duplicate_bytes,
        live_bytes,
        garbage_bytes,
        forgotten_bytes,
        trash_bytes,
        logical_bytes,
        volumes,
        volumes_bytes,
        filled_bytes,
        chunks,
        mark_bytes,
    } = pool.space()?;
    let ratio = |of: u64, to: u64| of as f64 / to.max(1) as f64;
    let deduplication = ratio(filled_bytes, live_bytes);
    let compression = ratio(unique_bytes + duplicate_bytes, stored_bytes);
    let console = &invocation.console;
    console.message(
        Object::message("summary")
            .integer("snapshots", snapshots)
            .integer("snapshots_incomplete", incomplete)
            .integer("logical_bytes", logical_bytes)
            .integer("volumes", volumes)
            .integer("volumes_bytes", volumes_bytes)
            .integer("live_bytes", live_bytes)
            .integer("unique_bytes", unique_bytes)
            .integer("duplicate_bytes", duplicate_bytes)
            .integer("stored_bytes", stored_bytes)
            .integer("reclaimable_bytes", garbage_bytes)
            .integer("forgotten_bytes", forgotten_bytes)
            .integer("trash_bytes", trash_bytes)
            .integer("containers", containers)
            .integer("chunks", chunks)
            .integer("mark_memory_bytes", mark_bytes)
            .number("deduplication_ratio", deduplication)
            .number("compression_ratio", compression),
    )?;
    let size = sizes::display;
    let mut lines = vec![
        (
            "snapshots",
            match incomplete {
                0 => snapshots.to_string(),
                _ => format!("{snapshots}, {incomplete} of them incomplete"),
            },
        ),
        ("in snapshots", size(logical_bytes)),
        ("in volumes", size(volumes_bytes)),
        (
            "after deduplication",
            format!("{} ({deduplication:.2} : 1)", size(live_bytes)),
        ),
        ("unique chunks", format!("{chunks}, {}", size(unique_bytes))),
        (
            "stored",
            format!(
                "{} ({compression:.2} : 1) in {}",
                size(stored_bytes),
                count(containers, "container")
            ),
        ),
    ];
    if duplicate_bytes > 0 {
        let size = size(duplicate_bytes);
        lines.push(("stored twice", format!("{size} before compression")));
    }
    if garbage_bytes > 0 {
        lines.push(("not needed any more", size(garbage_bytes)));
    }
    if forgotten_bytes > 0 {
        lines.push(("only for undelete", size(forgotten_bytes)));
    }
    if trash_bytes > 0 {
        lines.push(("in the trash", size(trash_bytes)));
    }
    for (name, value) in lines {
        console.line(format!("{name:<20} {value}"))?;
    }
    Ok(Exit::Done)
}

fn snapshots(invocation: &Invocation, args: &StatsArgs) -> anyhow::Result<Exit> {
    let filter = SnapshotFilter::new(&args.filter)?;
    let pool = invocation.open(OpenMode::Read)?;
    let all = KnownSnapshots::of(invocation, &pool)?;
    let meant = choose_several(&all, &[], &filter)?;
    let console = &invocation.console;
    let heading = [
        "ID",
        "Time",
        "Files",
        "Directories",
        "Size",
        "Added",
        "Seconds",
        "What",
    ];
    let mut table = Table::new(heading, &[2, 3, 4, 5, 6]);
    for snapshot in &meant {
        console.message(listing::snapshot(Object::message("snapshot"), snapshot))?;
        table.row([
            short_id(snapshot),
            calendar::local(snapshot.taken, &invocation.zone),
            snapshot.files.to_string(),
            snapshot.directories.to_string(),
            sizes::display(snapshot.logical_bytes),
            sizes::display(snapshot.added_bytes),
            format!("{:.1}", snapshot.duration_ms as f64 / 1000.0),
            listing::subject_and_gaps(snapshot),
        ]);
    }
    table
        .lines()
        .iter()
        .try_for_each(|line| console.line(line))?;
    let sum = |bytes: fn(&&&format::snapshot::Snapshot) -> u64| -> u64 {
        meant.iter().map(|s| bytes(&s)).sum()
    };
    let (logical, added) = (sum(|s| s.logical_bytes), sum(|s| s.added_bytes));
    console.message(
        Object::message("summary")
            .integer("snapshots", meant.len() as u64)
            .integer("logical_bytes", logical)
            .integer("added_bytes", added),
    )?;
    let (number, logical, added) = (meant.len(), sizes::display(logical), sizes::display(added));
    console.line(format!(
        "{}, {logical}, added {added}",
        count(number as u64, "snapshot")
    ))?;
    Ok(all.exit_of_all(Exit::Done))
}
