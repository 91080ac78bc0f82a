//! Limits how many denied logins are reported. Sessions call this when they refuse a login.
//!
//! Invariant: at most [`REPORTS_MAX`] reports in [`PERIOD`], whatever initiators do. What was not
//! reported is counted in the next report.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

const REPORTS_MAX: u32 = 10;
const PERIOD: Duration = Duration::from_secs(60);

/// The reports of a server.
#[derive(Default)]
pub(crate) struct Denials(Mutex<DenialCounts>);

#[derive(Default)]
struct DenialCounts {
    /// Start of the present period.
    since: Option<Instant>,
    /// Reports in the present period.
    reports: u32,
    /// Denials since the last report.
    unreported: u64,
}

impl Denials {
    /// Counts a denial. Returns the number of unreported ones before it if it may be reported.
    pub(crate) fn admit(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        let is_over = |since| now.saturating_duration_since(since) >= PERIOD;
        if state.since.is_none_or(is_over) {
            state.since = Some(now);
            state.reports = 0;
        }
        if state.reports == REPORTS_MAX {
            state.unreported += 1;
            return None;
        }
        state.reports += 1;
        Some(std::mem::take(&mut state.unreported))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_some_reports_and_a_count() {
        let (denials, start) = (Denials::default(), Instant::now());
        let reported = (0..1000).filter_map(|_| denials.admit(start));
        assert_eq!(reported.collect::<Vec<_>>(), [0; REPORTS_MAX as usize]);
        assert_eq!(denials.admit(start + PERIOD), Some(990));
        assert_eq!(denials.admit(start + PERIOD), Some(0));
    }
}
