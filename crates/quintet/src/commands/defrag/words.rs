//! What a run of defragmentation cost and brought, in words and in JSON.

use crate::commands::invocation::Invocation;
use crate::json::Object;
use crate::sizes;
use maintenance::{DefragReport, DefragStage, Toll};

/// All of it.
pub fn show(invocation: &Invocation, dry_run: bool, report: &DefragReport) -> std::io::Result<()> {
    let console = &invocation.console;
    let message = Object::message("summary").boolean("dry_run", dry_run);
    console.message(object(message, dry_run, report))?;
    for line in lines(dry_run, report) {
        console.line(line)?;
    }
    Ok(())
}

/// What was copied, or would be.
fn copied(dry_run: bool, report: &DefragReport) -> u64 {
    match dry_run {
        true => report.wanted_bytes,
        false => report.moved.bytes,
    }
}

fn percent(dry_run: bool, report: &DefragReport) -> f64 {
    copied(dry_run, report) as f64 * 100.0 / report.mapped_bytes.max(1) as f64
}

/// For people.
pub fn lines(dry_run: bool, report: &DefragReport) -> Vec<String> {
    let what = if report.is_traced {
        "ranges that were read"
    } else {
        "windows of 128 KiB"
    };
    let mut lines = vec![format!(
        "{} {what} of {} objects: {} lie in pieces",
        report.ranges, report.objects, report.fragmented
    )];
    let toll = |when: &str, toll: &Toll| {
        let requests = toll.requests().max(1.0);
        format!(
            "{when}: {:.0} device reads for {:.0} requests ({:.1} each), {:.1} places a MiB",
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
    lines.push(format!(
        "{} {}: {:.1} % of rewriting everything",
        sizes::display(copied(dry_run, report)),
        if dry_run { "would be copied" } else { "copied" },
        percent(dry_run, report)
    ));
    if report.unfair > 0 {
        lines.push(format!(
            "{} more lie in pieces and stay: moving them hurts others who share them (see --move-shared)",
            report.unfair
        ));
    }
    if report.failed > 0 {
        lines.push(format!(
            "{} cannot be read: see quintet check",
            report.failed
        ));
    }
    lines
}

/// For programs.
pub fn object(message: Object, dry_run: bool, report: &DefragReport) -> Object {
    let toll = |toll: &Toll| {
        Object::new()
            .number("requests", toll.requests())
            .number("device_reads", toll.reads())
            .integer("bytes", toll.bytes)
            .integer("regions", toll.regions)
            .integer("places", toll.runs)
            .number("places_per_mib", toll.runs_per_mib())
    };
    message
        .boolean("traced", report.is_traced)
        .integer("objects", report.objects)
        .integer("object_bytes", report.mapped_bytes)
        .integer("ranges", report.ranges)
        .integer("ranges_hot", report.hot)
        .integer("ranges_in_pieces", report.fragmented)
        .integer("ranges_moved", report.wanted)
        .integer("ranges_left_to_others", report.unfair)
        .integer("ranges_failed", report.failed)
        .integer("copied_bytes", copied(dry_run, report))
        .integer("cached_bytes", report.moved.cached_bytes)
        .integer("stored_bytes", report.moved.stored_bytes)
        .number("percent_of_rewriting", percent(dry_run, report))
        .object("before", toll(&report.before))
        .object("after", toll(&report.after))
}
