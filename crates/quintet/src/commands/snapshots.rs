//! `snapshots`: lists the snapshots. [`super::run`] calls this.
//!
//! Invariant: it reads the catalog only.

use super::invocation::Invocation;
use super::known_snapshots::KnownSnapshots;
use browsing::choice::{SnapshotFilter, choose_several};
use browsing::listing;
use command_line::SnapshotsArgs;
use retention::{GroupBy, group};
use store::OpenMode;
use terminal::calendar;
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::names::short_id;
use terminal::sizes;
use terminal::table::Table;

pub(super) fn run(invocation: &Invocation, args: &SnapshotsArgs) -> anyhow::Result<Exit> {
    let pool = invocation.open(OpenMode::Read)?;
    let filter = SnapshotFilter::new(&args.filter)?;
    let all = KnownSnapshots::of(invocation, &pool)?;
    let mut meant = all.found(choose_several(&all, &args.snapshots, &filter))?;
    if let Some(count) = args.latest {
        meant = group(meant, GroupBy::default())
            .into_iter()
            .flat_map(|group| group.snapshots.into_iter().take(count))
            .collect();
    }
    meant.sort_by_key(|s| (s.taken, s.id));
    let console = &invocation.console;
    let mut table = Table::new(
        ["ID", "Time", "Host", "Tags", "Size", "Added", "What"],
        &[4, 5],
    );
    for snapshot in &meant {
        console.message(listing::snapshot(Object::message("snapshot"), snapshot))?;
        table.row([
            short_id(snapshot),
            calendar::local(snapshot.taken, &invocation.zone),
            snapshot.host.clone(),
            snapshot.tags.join(","),
            sizes::display(snapshot.logical_bytes),
            sizes::display(snapshot.added_bytes),
            listing::subject_and_gaps(snapshot),
        ]);
    }
    console.message(Object::message("summary").integer("snapshots", meant.len() as u64))?;
    if !meant.is_empty() {
        table
            .lines()
            .iter()
            .try_for_each(|line| console.line(line))?;
    }
    console.line(units::count(meant.len() as u64, "snapshot"))?;
    Ok(all.exit_of_several(&args.snapshots, Exit::Done))
}
