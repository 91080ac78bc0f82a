//! Finds streams whose last run stored nothing. [`super::SOURCES`] lists it.
//!
//! Invariant: at most one finding for a stream. A run that stores something ends it.

use super::{Finding, FindingsInput, Severity};

pub(super) fn find(look: &FindingsInput<'_>) -> Vec<Finding> {
    let failed = look.pool.failed_streams().streams.into_iter();
    let finding = |(name, at): (String, units::UnixNanos)| Finding {
        severity: Severity::Attention,
        kind: "stream_failed",
        text: format!(
            "{name}: the last run, {}, stored nothing",
            terminal::calendar::rfc3339(whole_seconds(at))
        ),
        action: format!(
            "find out why the program that writes it failed, and store {name} again (a state without bytes needs \
             --allow-empty); to dismiss it, remove cache/failed-streams in the pool"
        ),
        object: name,
    };
    failed.map(finding).collect()
}

fn whole_seconds(time: units::UnixNanos) -> units::UnixNanos {
    units::UnixNanos(time.0 / 1_000_000_000 * 1_000_000_000)
}
