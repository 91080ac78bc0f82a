//! Groups snapshots by origin (`groups`), and decides which of a group a policy keeps, and why.
//! `forget` calls this; findings use the groups.
//!
//! Invariant: no I/O and no clock. The same snapshots, policy and time zone give the same decisions
//! at any time. Every kept snapshot has at least one reason. A policy that would keep nothing of a
//! group is refused.

#![forbid(unsafe_code)]

mod groups;
mod policy;

pub use groups::{Group, GroupBy, GroupKey, group};
pub use policy::{Keep, Policy};

use format::snapshot::Snapshot;
use jiff::Zoned;
use jiff::tz::TimeZone;
use terminal::calendar;
use units::UnixNanos;

/// Reason of a snapshot that was taken in the future.
const AHEAD: &str = "from the future: a clock was ahead";

/// Decision about a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision<'a> {
    /// The snapshot.
    pub snapshot: &'a Snapshot,
    /// Reasons for keeping it. Empty if it is to be forgotten.
    pub reasons: Vec<String>,
}

impl Decision<'_> {
    /// Returns true if the snapshot is kept.
    pub fn kept(&self) -> bool {
        !self.reasons.is_empty()
    }
}

/// Reason why nothing was decided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RetentionError {
    /// No rule was given.
    #[error("no rule given; give at least one --keep-* option, or name snapshots")]
    NoRule,
    /// The rules would forget every snapshot of this group.
    #[error(
        "the rules would keep no snapshot of {0}; nothing was forgotten. Add a rule such as --keep-last 1, or \
         name snapshots"
    )]
    KeepsNothing(String),
}

/// Decides about the snapshots of one group, newest first. Hours, days and so on are those of
/// `zone`. `--keep-within` counts back from the newest snapshot of the group, at most from `now`.
/// Snapshots from the future stay, and the rules do not see them.
pub fn decide<'a>(
    policy: &Policy,
    group: &Group<'a>,
    zone: &TimeZone,
    now: UnixNanos,
) -> Result<Vec<Decision<'a>>, RetentionError> {
    if policy.is_empty() {
        return Err(RetentionError::NoRule);
    }
    let is_ahead = |snapshot: &Snapshot| snapshot.taken.is_ahead_of(now);
    let times: Vec<Option<Zoned>> = group
        .snapshots
        .iter()
        .map(|snapshot| calendar::zoned(snapshot.taken, zone))
        .collect();
    let newest = group.snapshots.first().filter(|s| !is_ahead(s));
    let counted_from = newest.and_then(|s| calendar::zoned(s.taken.min(now), zone));
    let mut rules = policy.rules(counted_from.as_ref());
    let oldest = group.snapshots.iter().rposition(|s| !is_ahead(s));
    let decisions: Vec<Decision<'a>> = group
        .snapshots
        .iter()
        .zip(&times)
        .enumerate()
        .map(|(place, (snapshot, time))| {
            let mut reasons = policy.tag_reasons(snapshot);
            match time {
                Some(_) if is_ahead(snapshot) => reasons.push(AHEAD.to_owned()),
                Some(time) => {
                    let kept = rules
                        .iter_mut()
                        .filter_map(|r| r.keeps(time, Some(place) == oldest));
                    reasons.extend(kept);
                }
                // Only a wrong or hostile clock gives such a time. That is no reason to delete
                // data.
                None => reasons.push("time outside the calendar".to_owned()),
            }
            Decision { snapshot, reasons }
        })
        .collect();
    if !decisions.is_empty() && !decisions.iter().any(Decision::kept) {
        return Err(RetentionError::KeepsNothing(group.describe()));
    }
    Ok(decisions)
}

#[cfg(test)]
mod tests;
