//! `check`: verifies that everything is present and as it was written. [`super::run`] calls this.
//!
//! Invariant: it reports and never repairs. Damage is reported with the files that it affects.

use super::invocation::Invocation;
use crate::progress::ArchiveProgress;
use command_line::CheckArgs;
use format::root::RootRecord;
use format::snapshot::Snapshot;
use server::state::OpenPool;
use std::ops::ControlFlow;
use std::time::Duration;
use store::{Affected, CheckDepth, CheckReport, OpenMode};
use terminal::console::printable;
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::names::short_id;
use terminal::sizes;
use units::count;
use volumes::loss_messages::named;

/// Time between two reads of a journal that seems damaged.
const JOURNAL_PAUSE: Duration = Duration::from_millis(200);
const ELSEWHERE: &str = "the journal of the volumes is on a fast device and was not checked; a server that \
                         starts with that device (quintet serve --fast) checks it";

pub(super) fn run(invocation: &Invocation, args: &CheckArgs) -> anyhow::Result<Exit> {
    let depth = depth(args);
    // Notes are part of the report, so they are not printed here.
    let pool = invocation.open_silently(OpenMode::Read)?;
    let progress = invocation.progress("checking").counting("container");
    let record = pool.record();
    progress.add_total(record.containers, data_bytes(&record, depth));
    progress.totals_known();
    let mut report = pool.check(depth, &mut steps(&progress))?;
    drop(progress);
    let (snapshots, _) = pool.snapshots_readable()?;
    let journal = journal_damage(invocation, pool)?;
    report.damage.extend(journal);
    show(invocation, &report, &snapshots, depth)?;
    Ok(match report.is_sound() {
        true => Exit::Done,
        false => Exit::Damaged,
    })
}

/// Returns messages about damage of the journal, which a server may be writing at the same time.
fn journal_damage(invocation: &Invocation, mut pool: OpenPool) -> anyhow::Result<Vec<String>> {
    for is_last in [false, false, true] {
        let Some(inspection) = volumes::inspect_journal(&pool)? else {
            invocation.console.warn(ELSEWHERE);
            break;
        };
        let mut damage = inspection.damage;
        if damage.is_empty() {
            break;
        }
        // A server may have trimmed the journal meanwhile and reused the space. It may also have
        // been writing a header during the read: the next read finds it whole.
        pool = invocation.open_silently(OpenMode::Read)?;
        let from = pool.record().journal_position;
        damage.retain(|d| d.end.0 == 0 || d.end.0 > from);
        if is_last || damage.is_empty() {
            let volumes = pool.volumes().unwrap_or_default();
            return Ok(damage.iter().map(|d| named(d, &volumes)).collect());
        }
        invocation.interrupt.wait(JOURNAL_PAUSE);
    }
    Ok(Vec::new())
}

/// Returns the depth that the user asked for.
pub(super) fn depth(args: &CheckArgs) -> CheckDepth {
    match (args.read_data, args.subset) {
        (false, _) => CheckDepth::Structure,
        (true, None) => CheckDepth::ALL,
        (true, Some(subset)) => CheckDepth::Data {
            part: subset.part,
            parts: subset.parts,
        },
    }
}

/// Returns about how many stored bytes this depth reads.
pub(super) fn data_bytes(record: &RootRecord, depth: CheckDepth) -> u64 {
    match depth {
        CheckDepth::Structure => 0,
        CheckDepth::Data { parts, .. } => record.stored_bytes / parts.max(1),
    }
}

/// Returns a callback that counts containers and bytes, and stops when the user asks for it.
pub(super) fn steps(progress: &ArchiveProgress) -> impl FnMut(u64, u64) -> ControlFlow<()> + '_ {
    let (mut containers_before, mut bytes_before) = (0, 0);
    move |containers, bytes| {
        progress.add_files(containers - containers_before);
        progress.add_bytes(bytes - bytes_before);
        (containers_before, bytes_before) = (containers, bytes);
        match progress.interrupt().requested() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

fn show(
    invocation: &Invocation,
    report: &CheckReport,
    snapshots: &[Snapshot],
    depth: CheckDepth,
) -> std::io::Result<()> {
    let console = &invocation.console;
    show_found(invocation, report)?;
    for affected in &report.affected {
        show_affected(invocation, affected, snapshots)?;
    }
    let read = match depth {
        CheckDepth::Structure => "user data was not read (see --read-data)".to_owned(),
        CheckDepth::Data { .. } => {
            format!(
                "{} of data read in {}",
                sizes::display(report.data_bytes),
                count(report.regions, "region")
            )
        }
    };
    let CheckReport {
        containers,
        regions,
        data_bytes,
        chunks,
        ..
    } = *report;
    console.message(
        Object::message("summary")
            .boolean("sound", report.is_sound())
            .integer("containers", containers)
            .integer("regions", regions)
            .integer("data_bytes", data_bytes)
            .integer("snapshots", report.snapshots)
            .integer("chunks", chunks)
            .integer("mark_memory_bytes", report.mark_bytes)
            .integer("damaged", report.damage.len() as u64)
            .integer("restorable_containers", report.restorable.len() as u64)
            .integer("affected", report.affected.len() as u64),
    )?;
    console.line(format!(
        "{}, {}, {}; {read}",
        count(containers, "container"),
        count(chunks, "chunk"),
        count(report.snapshots, "snapshot")
    ))?;
    if report.is_sound() {
        return console.line("no damage found");
    }
    let (damage, affected) = (report.damage.len(), report.affected.len());
    console.line(format!(
        "DAMAGE FOUND in {}; affected files and images: {affected}",
        count(damage as u64, "place")
    ))?;
    if !report.restorable.is_empty() {
        let restorable = report.restorable.len();
        console.line(format!(
            "damaged containers that parity can restore: {restorable}. Their data is not lost; run quintet scrub or \
             quintet repair"
        ))?;
    }
    if report.bad.is_empty() && affected == 0 && !report.restorable.is_empty() {
        return Ok(());
    }
    console.line(
        "action: run quintet repair (with --replica POOL if another pool has copies). Then back up again \
         the sources that still exist. This stores the damaged data again and makes the snapshots above \
         complete",
    )
}

/// Prints notes and damage.
pub(super) fn show_found(invocation: &Invocation, report: &CheckReport) -> std::io::Result<()> {
    let console = &invocation.console;
    for note in &report.notes {
        console.message(Object::message("note").text("message", note))?;
        console.note(note);
    }
    for damage in &report.damage {
        console.message(Object::message("damage").text("message", damage))?;
        console.line(format!("damage: {damage}"))?;
    }
    Ok(())
}

/// Prints a name that is affected by damage.
pub(super) fn show_affected(
    invocation: &Invocation,
    affected: &Affected,
    snapshots: &[Snapshot],
) -> std::io::Result<()> {
    let console = &invocation.console;
    let snapshot = snapshots.iter().find(|s| s.id == affected.snapshot);
    // Images and streams have a name instead of paths.
    let path = match snapshot {
        Some(snapshot) if affected.path.is_empty() && !snapshot.name.is_empty() => {
            snapshot.name.as_bytes()
        }
        _ => affected.path.as_slice(),
    };
    let mut object = Object::message("affected")
        .text("snapshot", &affected.snapshot.to_string())
        .path("path", path);
    if let Some(offset) = affected.offset {
        object = object.integer("offset", offset);
    }
    console.message(object)?;
    let id = snapshot.map_or_else(|| affected.snapshot.to_string(), short_id);
    let at = affected.offset.map(|offset| format!(" from byte {offset}"));
    console.line(format!(
        "affected: {id} {}{}",
        printable(path),
        at.unwrap_or_default()
    ))
}
