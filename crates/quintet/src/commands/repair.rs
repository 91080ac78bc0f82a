//! `repair`: puts damaged regions into quarantine, so that the next backup stores their chunks
//! again, and restores them from parity or a replica. [`super::run`] calls this.
//!
//! Invariant: it removes nothing. A dry run is the same run on a dry-run copy of the pool. The exit
//! code is 0 if nothing was damaged, 20 if everything that snapshots need is intact again, and 21
//! if something is still missing, which is then named. A dry run ends with 0 or 21, because it
//! repairs nothing.

use super::backup::REGION_BYTES;
use super::check::{self, data_bytes, show_affected, show_found};
use super::invocation::Invocation;
use super::replica::{repair_from, replica_of};
use command_line::{CheckArgs, RepairArgs};
use format::snapshot::Snapshot;
use std::sync::Arc;
use store::{OpenMode, Repair};
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::sizes;
use units::count;

pub(super) fn run(invocation: &Invocation, args: &RepairArgs) -> anyhow::Result<Exit> {
    if args.acknowledge_lost_writes {
        return acknowledge(invocation);
    }
    let like = CheckArgs {
        read_data: true,
        subset: args.subset,
    };
    let depth = check::depth(&like);
    let lane = invocation.lane(None, REGION_BYTES)?;
    let replica = replica_of(invocation, &args.replica)?;
    // Notes are part of the report, so they are not printed here.
    let mode = match args.dry_run {
        true => OpenMode::Read,
        false => OpenMode::Write,
    };
    let opened = invocation.open_silently(mode)?;
    let pool = match args.dry_run {
        true => Arc::new(opened.dry_run(invocation.settings.memory_bytes)?),
        false => Arc::clone(&opened),
    };
    let progress = invocation.progress("repairing").counting("container");
    let record = pool.record();
    progress.add_total(record.containers, data_bytes(&record, depth));
    progress.totals_known();
    let mut repair = pool.repair(depth, lane, &mut check::steps(&progress))?;
    drop(progress);
    if let Some(replica) = replica.filter(|_| !repair.remaining.is_sound()) {
        let (console, interrupt) = (&invocation.console, &invocation.interrupt);
        let counts = repair_from(&replica, &pool, lane, console, interrupt, &mut || ())?;
        if counts.chunks > 0 {
            repair.remaining = pool.look_again()?;
        }
    }
    let (snapshots, _) = pool.snapshots_readable()?;
    show(invocation, &repair, &snapshots, args.dry_run)?;
    if args.dry_run {
        opened.note_damage_of(&pool);
        opened
            .health()
            .note_restorable(repair.found.restorable.iter().copied());
    }
    let had_work = repair.quarantined + repair.taken_back + repair.restored > 0;
    Ok(
        match (repair.remaining.is_sound(), repair.found.is_sound()) {
            (true, true) if !had_work => Exit::Done,
            _ if args.dry_run => Exit::Damaged,
            (true, _) => Exit::Repaired,
            (false, _) => Exit::Damaged,
        },
    )
}

/// Lost writes are reported until the user acknowledges them.
fn acknowledge(invocation: &Invocation) -> anyhow::Result<Exit> {
    let volumes = invocation.open_volumes()?;
    let (lost, more) = volumes.lost_writes();
    let ranges = lost.len() as u64 + u64::from(more);
    volumes.acknowledge_lost_writes()?;
    let console = &invocation.console;
    console.message(Object::message("summary").integer("acknowledged", ranges))?;
    console.line(match ranges {
        0 => "there are no lost writes to acknowledge".to_owned(),
        ranges => format!("acknowledged lost writes: {}", count(ranges, "range")),
    })?;
    Ok(Exit::Done)
}

fn show(
    invocation: &Invocation,
    repair: &Repair,
    snapshots: &[Snapshot],
    is_dry_run: bool,
) -> std::io::Result<()> {
    let console = &invocation.console;
    let Repair {
        found,
        quarantined,
        taken_back,
        restored,
        salvaged,
        remaining,
    } = repair;
    show_found(invocation, found)?;
    for affected in &remaining.affected {
        show_affected(invocation, affected, snapshots)?;
    }
    console.message(
        Object::message("summary")
            .boolean("dry_run", is_dry_run)
            .boolean("sound", remaining.is_sound())
            .integer("containers", found.containers)
            .integer("regions", found.regions)
            .integer("data_bytes", found.data_bytes)
            .integer("damaged", found.damage.len() as u64)
            .integer("set_aside", *quarantined)
            .integer("taken_back", *taken_back)
            .integer("restored", *restored)
            .integer("salvaged_bytes", salvaged.new_bytes)
            .integer("affected", remaining.affected.len() as u64),
    )?;
    console.line(format!(
        "{}, {} of data read in {}",
        count(found.containers, "container"),
        sizes::display(found.data_bytes),
        count(found.regions, "region")
    ))?;
    let would_be = if is_dry_run { "would be " } else { "" };
    for (number, what) in [
        (
            *quarantined,
            "put in quarantine; new data is not deduplicated against them",
        ),
        (*taken_back, "taken out of quarantine; they are sound"),
    ] {
        if number > 0 {
            console.line(format!("regions or containers {would_be}{what}: {number}"))?;
        }
    }
    if *restored > 0 {
        console.line(format!(
            "{} {would_be}restored from parity",
            count(*restored, "container")
        ))?;
    }
    if salvaged.new_bytes > 0 {
        let bytes = sizes::display(salvaged.new_bytes);
        console.line(format!("{bytes} of readable data {would_be}stored again"))?;
    }
    match (remaining.is_sound(), found.is_sound()) {
        (true, true) => console.line("no damage found"),
        (true, false) if is_dry_run => {
            console.line("would be repaired: every snapshot would be complete")
        }
        (true, false) => console.line("repaired: every snapshot is complete"),
        (false, _) => {
            // Repeat the remaining damage if it affects no named file, so that users need not look
            // for it above.
            for damage in remaining
                .damage
                .iter()
                .filter(|_| remaining.affected.is_empty())
            {
                console.line(format!("left: {damage}"))?;
            }
            console.line(format!(
                "{}; affected files and images: {}",
                if is_dry_run {
                    "WOULD STILL BE DAMAGED"
                } else {
                    "STILL DAMAGED"
                },
                remaining.affected.len()
            ))?;
            console.line(
                "action: back up again the sources that still exist. This stores the damaged data again \
                 and makes the snapshots above complete. Forget snapshots without a source",
            )
        }
    }
}
