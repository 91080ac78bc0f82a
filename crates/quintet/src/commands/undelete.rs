//! `undelete`: restores forgotten snapshots from the trash, or lists them. [`super::run`] calls
//! this.
//!
//! Invariant: all named snapshots are restored in one commit, or none.

use super::invocation::Invocation;
use super::volume::return_volumes;
use browsing::choice::{SnapshotFilter, choose_several};
use browsing::listing;
use command_line::UndeleteArgs;
use format::snapshot::Snapshot;
use store::OpenMode;
use terminal::calendar;
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::names::short_id;
use terminal::table::Table;
use units::count;

pub(super) fn run(invocation: &Invocation, args: &UndeleteArgs) -> anyhow::Result<Exit> {
    if args.snapshots.is_empty() {
        return list(invocation);
    }
    let pool = invocation.open(OpenMode::Write)?;
    let (forgotten, _) = pool.trash()?;
    let all: Vec<Snapshot> = forgotten.into_iter().map(|f| f.snapshot).collect();
    let meant = choose_several(&all, &args.snapshots, &SnapshotFilter::default())?;
    let ids: Vec<_> = meant.iter().map(|snapshot| snapshot.id).collect();
    let back = pool.undelete(&ids)?;
    let console = &invocation.console;
    for snapshot in &back {
        console.message(listing::snapshot(Object::message("undeleted"), snapshot))?;
        let (id, what) = (short_id(snapshot), listing::subject(snapshot));
        let time = calendar::local(snapshot.taken, &invocation.zone);
        console.line(format!("restored {id} of {time}, {what}"))?;
    }
    console.message(Object::message("summary").integer("undeleted", back.len() as u64))?;
    console.line(format!(
        "{} restored from the trash",
        count(back.len() as u64, "snapshot")
    ))?;
    drop(pool);
    return_volumes(invocation, &back)?;
    Ok(Exit::Done)
}

fn list(invocation: &Invocation) -> anyhow::Result<Exit> {
    let pool = invocation.open(OpenMode::Read)?;
    let (forgotten, _) = pool.trash()?;
    let console = &invocation.console;
    let mut table = Table::new(["ID", "Time", "Forgotten", "What"], &[]);
    for f in &forgotten {
        let object = Object::message("forgotten").text("forgotten", &calendar::rfc3339(f.since.at));
        console.message(listing::snapshot(object, &f.snapshot))?;
        table.row([
            short_id(&f.snapshot),
            calendar::local(f.snapshot.taken, &invocation.zone),
            calendar::local(f.since.at, &invocation.zone),
            listing::subject(&f.snapshot),
        ]);
    }
    table
        .lines()
        .iter()
        .try_for_each(|line| console.line(line))?;
    console.message(Object::message("summary").integer("forgotten", forgotten.len() as u64))?;
    console.line(format!(
        "{} in the trash",
        count(forgotten.len() as u64, "snapshot")
    ))?;
    Ok(Exit::Done)
}
