//! Formats the progress of a scrub as text and as JSON. `scrub` and `status` call this.
//!
//! Invariant: no I/O.

use format::phase::TaskPhase;
use format::scrub::Pass;
use jiff::tz::TimeZone;
use maintenance::ScrubStatus;
use terminal::calendar;
use terminal::json::Object;
use terminal::sizes;
use units::count;

/// Returns two lines: the present activity, and the last full verification.
pub(in crate::commands) fn summary(status: &ScrubStatus, zone: &TimeZone) -> Vec<String> {
    let local = |time| calendar::local(time, zone);
    let ScrubStatus {
        pass,
        containers,
        stored_bytes,
        ..
    } = status;
    let so_far = || {
        format!(
            "{} of {} since {}: {}",
            pass.containers,
            count(*containers, "container"),
            local(pass.began),
            bytes(pass, *stored_bytes)
        )
    };
    let now = match status.phase {
        TaskPhase::AtRest => "at rest".to_owned(),
        TaskPhase::UnderWay => format!("under way, {}", so_far()),
        TaskPhase::Paused => format!("paused, {}", so_far()),
    };
    let verified = match status.verified() {
        None => "never in full".to_owned(),
        Some(ended) => format!(
            "in full from {} to {}: {}",
            local(status.last.began),
            local(ended),
            done(&status.last)
        ),
    };
    vec![format!("scrub: {now}"), format!("verified: {verified}")]
}

/// Formats a pass that has ended, as one line.
pub(super) fn done(pass: &Pass) -> String {
    format!(
        "{}, {} read from disk, {} verified by readers, {} damaged",
        count(pass.containers, "container"),
        sizes::display(pass.read_bytes),
        sizes::display(pass.cached_bytes),
        pass.damaged
    )
}

fn bytes(pass: &Pass, all: u64) -> String {
    format!(
        "{} read from disk and {} verified by readers, of {}; {} damaged",
        sizes::display(pass.read_bytes),
        sizes::display(pass.cached_bytes),
        sizes::display(all),
        pass.damaged
    )
}

/// Adds the fields of a status.
pub(in crate::commands) fn object(object: Object, status: &ScrubStatus) -> Object {
    let mut object = object
        .text("phase", status.phase.name())
        .integer("pool_containers", status.containers)
        .integer("pool_stored_bytes", status.stored_bytes);
    if status.phase != TaskPhase::AtRest {
        object = object.object("pass", numbers(Object::new(), &status.pass));
    }
    if let Some(ended) = status.verified() {
        object = object
            .time("verified", ended)
            .object("last", numbers(Object::new(), &status.last));
    }
    object
}

/// Adds the fields of a pass.
pub(super) fn numbers(object: Object, pass: &Pass) -> Object {
    object
        .time("began", pass.began)
        .integer("containers", pass.containers)
        .integer("read_bytes", pass.read_bytes)
        .integer("verified_by_readers_bytes", pass.cached_bytes)
        .integer("damaged", pass.damaged)
}
