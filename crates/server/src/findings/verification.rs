//! Finds that the last full verification is too old. [`super::SOURCES`] lists it.
//!
//! For a pool that was never verified in full, the time counts from its creation. An empty pool
//! needs no verification.
//!
//! Invariant: at most one finding. A limit of 0 disables the check.

use super::{Finding, FindingsInput, Severity};
use maintenance::Scrubber;
use units::UnixNanos;

const DAY_S: u64 = 86_400;

pub(super) fn find(look: &FindingsInput<'_>) -> Vec<Finding> {
    let within_s = look.limits.verify_within_s;
    if within_s == 0 || look.pool.record().containers == 0 {
        return Vec::new();
    }
    let verified = match &look.server {
        Some(server) => server.verified,
        None => Scrubber::recorded(look.pool).verified(),
    };
    let since = verified.unwrap_or(look.pool.config().created);
    overdue_s(look.now, since, within_s)
        .map(|age_s| Finding {
            severity: Severity::Attention,
            kind: "verification_overdue",
            object: String::new(),
            text: match verified {
                Some(_) => format!("some data was not verified for {}", days(age_s)),
                None => format!("never verified in full; the pool is {} old", days(age_s)),
            },
            action: "run quintet scrub".to_owned(),
        })
        .into_iter()
        .collect()
}

fn days(age_s: u64) -> String {
    units::count(age_s / DAY_S, "day")
}

/// Returns the age in seconds if it exceeds the limit. A time in the future has age 0.
fn overdue_s(now: UnixNanos, since: UnixNanos, within_s: u64) -> Option<u64> {
    let age_s = u64::try_from(now.0.saturating_sub(since.0) / 1_000_000_000).unwrap_or(0);
    (age_s > within_s).then_some(age_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages() {
        let at = |s: i64| UnixNanos(s * 1_000_000_000);
        assert_eq!(overdue_s(at(100), at(0), 100), None);
        assert_eq!(overdue_s(at(101), at(0), 100), Some(101));
        assert_eq!(overdue_s(at(0), at(500), 100), None, "a clock was ahead");
        let (first, last) = (UnixNanos(i64::MIN), UnixNanos(i64::MAX));
        assert!(overdue_s(last, first, 1).is_some());
    }
}
