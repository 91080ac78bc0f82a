//! Clients of a server that have forgotten snapshots open and so keep their space in use. `status`
//! calls this.
//!
//! Invariant: a snapshot counts as forgotten only if the whole list could be read and does not
//! contain it.

use jiff::tz::TimeZone;
use std::collections::BTreeSet;
use store::{HolderKind, Pool, SnapshotHolder};
use terminal::calendar;
use terminal::json::Object;
use units::SnapshotId;
use units::count;

/// Number of digits of a snapshot's id in text.
const SHORT_DIGITS: usize = 8;

/// Returns the holders of snapshots that are not in `listed`.
pub(super) fn of_forgotten(
    pool: &Pool,
    listed: impl Iterator<Item = SnapshotId>,
) -> Vec<SnapshotHolder> {
    let mut holders = pool.holders().open_snapshots();
    if !holders.is_empty() {
        let listed: BTreeSet<SnapshotId> = listed.collect();
        holders.retain(|holder| !listed.contains(&holder.snapshot));
    }
    holders
}

/// Formats a holder as JSON: snapshot, kind (nbd, iscsi or mount), name, begin, number of
/// connections or open files.
pub(super) fn object(holder: &SnapshotHolder) -> Object {
    Object::new()
        .text("snapshot", &holder.snapshot.to_string())
        .text("kind", holder.kind.name())
        .text("name", &holder.name)
        .time("since", holder.since)
        .integer("opens", holder.opens)
}

/// Formats a holder as text.
pub(super) fn line(holder: &SnapshotHolder, zone: &TimeZone) -> String {
    let id = holder.snapshot.to_string();
    let id = id.get(..SHORT_DIGITS).unwrap_or(&id);
    let (name, opens) = (&holder.name, holder.opens);
    let holder_name = match holder.kind {
        HolderKind::Nbd => format!("{} to {name}", count(opens, "NBD connection")),
        HolderKind::Iscsi => format!("{} to {name}", count(opens, "iSCSI session")),
        HolderKind::Mount => format!("open files and directories of the mount {name} ({opens})"),
    };
    let since = calendar::local(holder.since, zone);
    format!("forgotten snapshot {id} is kept for {holder_name}, since {since}")
}
