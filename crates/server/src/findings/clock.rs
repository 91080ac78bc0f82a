//! Finds snapshots from the future: a clock was ahead when they were taken. [`super::SOURCES`]
//! lists it.
//!
//! Invariant: one finding for all of them, with the one that is furthest ahead.

use super::{Finding, FindingsInput, Severity};
use terminal::calendar;
use terminal::names::short_id;

pub(super) fn find(look: &FindingsInput<'_>) -> Vec<Finding> {
    let ahead = look.snapshots.iter();
    let ahead: Vec<_> = ahead.filter(|s| s.taken.is_ahead_of(look.now)).collect();
    let Some(furthest) = ahead.iter().max_by_key(|s| s.taken) else {
        return Vec::new();
    };
    let (id, time) = (short_id(furthest), calendar::rfc3339(furthest.taken));
    let text = match ahead.len() {
        1 => format!("snapshot {id} is from the future ({time}): a clock was ahead"),
        count => format!(
            "{count} snapshots are from the future (up to {id} of {time}): a clock was ahead"
        ),
    };
    vec![Finding {
        severity: Severity::Attention,
        kind: "snapshot_in_future",
        object: String::new(),
        text,
        action: format!(
            "correct the clock, and forget them when there are newer snapshots of their sources: quintet forget {id}. \
             Until then `latest` and the rules of `forget` do not count them"
        ),
    }]
}
