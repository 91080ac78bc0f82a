//! How many bytes a run may copy into small regions. The defragmenter and the schedule call this.
//!
//! A run of a user may copy [`SMALL_PERCENT`] of its objects' bytes. Runs that a server begins by
//! itself share a percentage for a week: their copies count, and are forgiven evenly, so much in a
//! week. So they may copy that percentage at once, and in the long run that much in a week.
//!
//! Invariant: pure: time is an argument. The charge lives in the record of the last run, which runs
//! of users carry on. A lost record costs one week's percentage.

use super::DefragReport;
use fragpicker::SMALL_PERCENT;
use units::UnixNanos;

const WEEK_NS: u128 = 7 * 86_400 * 1_000_000_000;

/// Returns what the next run is charged with before it begins, and from when that is forgiven. A
/// time in the future came from a wrong clock, and counts as now.
pub fn carried(last: &DefragReport, now: UnixNanos) -> (u64, UnixNanos) {
    let copied = last.counts.small.bytes;
    match last.wish.is_by_server() && copied > 0 {
        true => (left(last).saturating_add(copied), last.began.min(now)),
        false => (last.spent_bytes, last.spent_at.min(now)),
    }
}

/// Returns the maximum number of bytes that this run may copy into small regions.
pub fn bytes_max(report: &DefragReport) -> u64 {
    let of_run = report.counts.mapped_bytes / 100 * SMALL_PERCENT;
    match report.wish.is_by_server() {
        true => of_run.min(weekly(report).saturating_sub(left(report))),
        false => of_run,
    }
}

fn weekly(report: &DefragReport) -> u64 {
    report.counts.mapped_bytes / 100 * u64::from(report.wish.weekly_percent)
}

/// Returns what is left of the charge when the run begins.
fn left(report: &DefragReport) -> u64 {
    let passed_ns = report.began.0.saturating_sub(report.spent_at.0);
    let passed_ns = u128::try_from(passed_ns).unwrap_or(0);
    let forgiven = u128::from(weekly(report)) * passed_ns / WEEK_NS;
    let forgiven = u64::try_from(forgiven).unwrap_or(u64::MAX);
    report.spent_bytes.saturating_sub(forgiven)
}
