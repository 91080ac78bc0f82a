//! Formats the cost and result of a defragmentation run as text and as JSON. `defrag`, `status` and
//! `top` call this.
//!
//! Invariant: no I/O except to the console.

use crate::commands::invocation::Invocation;
use format::defrag::{DefragToll, FetchToll};
use format::phase::TaskPhase;
use maintenance::{DefragReport, DefragStage, FetchCost, Toll};
use server::state::{DefragStatus, RunOutcome};
use std::time::Duration;
use terminal::json::Object;
use terminal::sizes;
use units::UnixNanos;
use units::count;

/// Prints the report of a run that has ended.
pub fn show(invocation: &Invocation, dry_run: bool, report: &DefragReport) -> std::io::Result<()> {
    let console = &invocation.console;
    let message = Object::message("summary").boolean("dry_run", dry_run);
    console.message(numbers(message, dry_run, report))?;
    for line in lines(dry_run, report) {
        console.line(line)?;
    }
    Ok(())
}

/// Returns the bytes that were copied, or would be.
fn copied(dry_run: bool, report: &DefragReport) -> u64 {
    match dry_run {
        true => report.counts.wanted_bytes,
        false => report.counts.moved.bytes,
    }
}

fn percent(dry_run: bool, report: &DefragReport) -> f64 {
    copied(dry_run, report) as f64 * 100.0 / report.counts.mapped_bytes.max(1) as f64
}

/// Returns the bytes that were copied into small regions, or would be.
fn copied_small(dry_run: bool, report: &DefragReport) -> u64 {
    match dry_run {
        true => report.counts.small.wanted_bytes,
        false => report.counts.small.bytes,
    }
}

/// Describes what random reads gain from small regions, if any range is read so.
fn small_line(dry_run: bool, report: &DefragReport) -> Option<String> {
    let small = &report.counts.small;
    if small.ranges == 0 {
        return None;
    }
    let each = |toll: &FetchToll| sizes::display(toll.bytes_each() as u64);
    let mut line = format!(
        "hot chunks in regions that are large for random reads: {} {} into small ones; a cold read of a hot chunk fetches {}",
        sizes::display(copied_small(dry_run, report)),
        if dry_run { "would be copied" } else { "copied" },
        each(&small.before)
    );
    if dry_run || report.stage == DefragStage::Done {
        let then = if dry_run { "would fetch" } else { "now" };
        line = format!("{line}, {then} {}", each(&small.after));
    }
    if small.over > 0 {
        line = format!(
            "{line}; not copied: {} over the bound",
            count(small.over, "range")
        );
    }
    Some(line)
}

/// Formats the report as text.
pub fn lines(dry_run: bool, report: &DefragReport) -> Vec<String> {
    let what = if report.wish.is_traced {
        "ranges that were read"
    } else {
        "windows of 128 KiB"
    };
    let mut lines = vec![format!(
        "{} {what} of {}: {} fragmented",
        report
            .counts
            .ranges
            .saturating_sub(report.counts.small.ranges),
        count(report.counts.objects, "object"),
        report.counts.fragmented
    )];
    let toll = |when: &str, toll: &DefragToll| {
        let requests = toll.requests().max(1.0);
        format!(
            "{when}: {:.0} device reads for {:.0} requests ({:.1} each), {:.1} places per MiB",
            toll.reads(),
            toll.requests(),
            toll.reads() / requests,
            toll.runs_per_mib()
        )
    };
    lines.push(toll("before", &report.before));
    if dry_run || report.stage == DefragStage::Done {
        lines.push(toll(
            if dry_run { "would be" } else { "after" },
            &report.after,
        ));
    }
    lines.extend(small_line(dry_run, report));
    lines.push(format!(
        "{} {}: {:.1} % of rewriting everything",
        sizes::display(copied(dry_run, report)),
        if dry_run { "would be copied" } else { "copied" },
        percent(dry_run, report)
    ));
    if report.counts.unfair > 0 {
        lines.push(format!(
            "{} more fragmented, not moved: other objects share them and would suffer (see --move-shared)",
            report.counts.unfair
        ));
    }
    if report.counts.failed > 0 {
        lines.push(format!(
            "{} cannot be read; see quintet check",
            report.counts.failed
        ));
    }
    lines
}

/// Adds the fields of a report.
fn numbers(message: Object, dry_run: bool, report: &DefragReport) -> Object {
    let toll = |toll: &DefragToll| {
        Object::new()
            .number("requests", toll.requests())
            .number("device_reads", toll.reads())
            .integer("bytes", toll.bytes)
            .integer("regions", toll.regions)
            .integer("places", toll.runs)
            .number("places_per_mib", toll.runs_per_mib())
    };
    message
        .boolean("traced", report.wish.is_traced)
        .integer("objects", report.counts.objects)
        .integer("object_bytes", report.counts.mapped_bytes)
        .integer(
            "ranges",
            report
                .counts
                .ranges
                .saturating_sub(report.counts.small.ranges),
        )
        .integer("ranges_hot", report.counts.hot)
        .integer("ranges_in_pieces", report.counts.fragmented)
        .integer("ranges_moved", report.counts.wanted)
        .integer("ranges_left_to_others", report.counts.unfair)
        .integer("ranges_failed", report.counts.failed)
        .integer("copied_bytes", copied(dry_run, report))
        .integer("cached_bytes", report.counts.moved.cached_bytes)
        .integer("stored_bytes", report.counts.moved.stored_bytes)
        .number("percent_of_rewriting", percent(dry_run, report))
        .object("before", toll(&report.before))
        .object("after", toll(&report.after))
        .object("small_regions", small(dry_run, report))
}

fn small(dry_run: bool, report: &DefragReport) -> Object {
    let small = &report.counts.small;
    Object::new()
        .integer("hot_ranges", small.ranges)
        .integer("amplified_ranges", small.amplified)
        .integer("over_bound_ranges", small.over)
        .integer("written_bytes", copied_small(dry_run, report))
        .integer("written_stored_bytes", small.stored_bytes)
        .number("cold_read_bytes_before", small.before.bytes_each().round())
        .number("cold_read_bytes_after", small.after.bytes_each().round())
}

/// Formats the progress of a run as one line.
pub(in crate::commands) fn line(status: &DefragStatus) -> String {
    let report = &status.run.report;
    let at = format!(
        "{} of {}",
        report.ranges_done(),
        units::count(report.counts.ranges, "range")
    );
    let copied = sizes::display(report.counts.moved.bytes);
    let eta = match status.run.eta_s.map(Duration::try_from_secs_f64) {
        Some(Ok(left)) => format!(", about {} left", terminal::progress::clock(left)),
        _ => String::new(),
    };
    let doing = match report.stage {
        DefragStage::Sizing => "counting the ranges".to_owned(),
        DefragStage::Examining => format!("examining {at}"),
        DefragStage::Estimating => format!("estimating the effect on other objects, after {at}"),
        DefragStage::Moving => format!("copying, after {at}"),
        DefragStage::Measuring => format!("measuring, {at}"),
        DefragStage::Done => "done".to_owned(),
    };
    let copied = match report.counts.wanted_bytes {
        0 => format!("{copied} copied"),
        wanted => format!("{copied} of {} copied", sizes::display(wanted)),
    };
    let is_by_server = report.wish.is_by_server();
    let by = match is_by_server {
        true => ", by the server itself",
        false => "",
    };
    match (&status.outcome, status.run.report.phase, report.stage) {
        (_, TaskPhase::AtRest, DefragStage::Done) if is_by_server => format!(
            "last run{by}: {}",
            small_line(false, report).unwrap_or(copied)
        ),
        (_, TaskPhase::AtRest, DefragStage::Done) => format!(
            "last run copied {}: {:.1} device reads per request before, {:.1} after{}",
            sizes::display(report.counts.moved.bytes),
            report.before.reads() / report.before.requests().max(1.0),
            report.after.reads() / report.after.requests().max(1.0),
            small_line(false, report).map_or(String::new(), |line| format!("; {line}"))
        ),
        (_, TaskPhase::AtRest, _) if is_by_server => {
            format!("last run{by}, ended early; {copied}")
        }
        (_, TaskPhase::AtRest, _) => format!("last run was cancelled; {copied}"),
        (RunOutcome::Failed(why), ..) => {
            format!("paused, {doing}; {copied}: {why} (continue with quintet defrag resume)")
        }
        (_, TaskPhase::Paused, _) => {
            format!("paused, {doing}; {copied} (continue with quintet defrag resume)")
        }
        (_, TaskPhase::UnderWay, _) => format!("{doing}{by}; {copied}{eta}"),
    }
}

/// Adds the fields of a run's progress.
pub(in crate::commands) fn object(message: Object, status: &DefragStatus) -> Object {
    let report = &status.run.report;
    let mut message = message
        .boolean("running", report.phase == TaskPhase::UnderWay)
        .boolean("paused", report.phase == TaskPhase::Paused)
        .text("stage", report.stage.name())
        .text(
            "by",
            if report.wish.is_by_server() {
                "server"
            } else {
                "command"
            },
        )
        .time("began", report.began)
        .integer("ranges_done", report.ranges_done())
        .integer("wanted_bytes", report.counts.wanted_bytes);
    if report.ended != UnixNanos::default() {
        message = message.time("ended", report.ended);
    }
    if let Some(eta_s) = status.run.eta_s {
        message = message.number("seconds_remaining", eta_s.round());
    }
    if let RunOutcome::Failed(why) = &status.outcome {
        message = message.text("failure", why);
    }
    numbers(message, false, report)
}
