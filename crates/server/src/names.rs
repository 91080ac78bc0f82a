//! Names of snapshots, as people and clients read them.
//!
//! Invariant: a name begins as the snapshot's id does, so that commands take it for the snapshot.
//! Called by exports and by commands that list snapshots.

use crate::calendar;
use format::snapshot::Snapshot;
use jiff::tz::TimeZone;

/// Digits of the beginning of a name.
const SHORT_DIGITS: usize = 8;

/// First digits of the name.
pub fn short_id(snapshot: &Snapshot) -> String {
    let mut id = snapshot.id.to_string();
    id.truncate(SHORT_DIGITS);
    id
}

/// What a client hears of a state.
pub fn description(snapshot: &Snapshot, what: &str, zone: &TimeZone) -> String {
    let time = calendar::local(snapshot.taken, zone);
    format!("{what} of {time}, {}", short_id(snapshot))
}
