//! Short names of snapshots. Exports and commands that list snapshots call this.
//!
//! Invariant: a short name is the beginning of the snapshot's id, so that commands accept it for
//! the snapshot.

use crate::calendar;
use format::snapshot::Snapshot;
use jiff::tz::TimeZone;

/// Number of digits of a short name.
const SHORT_DIGITS: usize = 8;

/// Returns the first digits of the id.
pub fn short_id(snapshot: &Snapshot) -> String {
    let mut id = snapshot.id.to_string();
    id.truncate(SHORT_DIGITS);
    id
}

/// Returns the description of a state for clients.
pub fn description(snapshot: &Snapshot, what: &str, zone: &TimeZone) -> String {
    let time = calendar::local(snapshot.taken, zone);
    format!("{what} of {time}, {}", short_id(snapshot))
}
