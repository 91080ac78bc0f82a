//! The part of `status` about the gc, the scrubs and the copies of hot chunks that a server begins
//! by itself. `status` calls this.
//!
//! Invariant: it reads counters and records only.

use jiff::tz::TimeZone;
use maintenance::{CollectNote, HotWait, NextCollect, Urgency};
use server::state::{Live, ServerState};
use terminal::calendar;
use terminal::json::Object;
use terminal::sizes;
use units::{UnixNanos, count};

/// Formats the state of gc as text.
pub fn collecting(server: &ServerState, live: &Live, zone: &TimeZone) -> String {
    let status = &live.collecting;
    let mut words = Vec::new();
    if let Some(run) = &status.running {
        let (deleted, discarded) = (run.counts.deleted_bytes, run.counts.discarded_bytes);
        words.push(format!(
            "under way, started by {}: {}",
            name(&run.begun),
            given(deleted, discarded)
        ));
    }
    words.push(match &status.last {
        Some(last) => ended(last, zone),
        None => "no run yet".to_owned(),
    });
    words.push(
        match (&status.next, server.tasks.shares().schedule.collects) {
            (_, false) => "only by command (quintet gc)".to_owned(),
            (Some(next), true) => due(next, live, zone),
            (None, true) => "next: now".to_owned(),
        },
    );
    words.join("; ")
}

/// Formats the last gc run as text.
pub fn ended(last: &CollectNote, zone: &TimeZone) -> String {
    let how = match last.is_complete {
        true => "",
        false => ", unfinished",
    };
    format!(
        "last run {} by {}{how}: {}",
        calendar::local(last.at, zone),
        name(last),
        given(last.deleted_bytes, last.discarded_bytes)
    )
}

fn given(deleted_bytes: u64, discarded_bytes: u64) -> String {
    let size = sizes::display;
    format!(
        "{} deleted, {} put into the trash",
        size(deleted_bytes),
        size(discarded_bytes)
    )
}

fn due(next: &NextCollect, live: &Live, zone: &TimeZone) -> String {
    let size = sizes::display;
    let free = live.room.map_or(String::new(), |room| {
        format!(" (now {})", size(room.free_bytes))
    });
    let mut when = vec![format!("{} are stored", size(next.stored_bytes))];
    if next.free_bytes > 0 {
        when.push(format!("less than {} is free{free}", size(next.free_bytes)));
    }
    let when = format!("next when {}", when.join(" or "));
    match next.at_s {
        Some(at_s) => format!("{when}, or {}", local(at_s, zone)),
        None => when,
    }
}

/// Formats when the next scrub begins.
pub fn scrubbing(server: &ServerState, zone: &TimeZone) -> String {
    let shares = server.tasks.shares();
    let created = server.pool.config().created;
    let due_s = server
        .tasks
        .scrub
        .due_s(server.pool.now(), created, shares.within.scrub_s);
    let by = match server.tasks.scrub.is_by_itself() {
        true => "the last was started by the server itself; ",
        false => "",
    };
    let when = match (shares.schedule.scrubs, due_s) {
        (false, _) => "only by command (quintet scrub start)".to_owned(),
        (true, Some(due_s)) => format!("next {}", local(due_s, zone)),
        (true, None) => "next when this one is done".to_owned(),
    };
    let from = server.tasks.scrub.standing_replica();
    let from = from.map_or(String::new(), |path| {
        format!("; they repair from {}", path.display())
    });
    format!("{by}{when}{from}")
}

/// Formats what a server does by itself about hot chunks in large regions.
pub fn hot_chunks(server: &ServerState, live: &Live, zone: &TimeZone) -> String {
    let (status, percent) = (
        &live.hot_chunks,
        server.tasks.shares().schedule.hot_chunks_percent,
    );
    let copied = match status.runs {
        0 => String::new(),
        runs => format!(
            "{} copied into small regions by the server itself in {}; ",
            sizes::display(status.copied_bytes),
            count(runs, "run")
        ),
    };
    if percent == 0 {
        return format!("{copied}only by command (quintet defrag)");
    }
    let doing = match (server.tasks.own_defrag(), status.wait) {
        (Some(_), _) => "under way, started by the server itself".to_owned(),
        (None, HotWait::Until(at)) => format!("next not before {}", calendar::local(at, zone)),
        (None, wait) => format!("next {}", next_hot(wait)),
    };
    format!("{copied}{doing}, at most {percent} % of what is read each week")
}

fn next_hot(wait: HotWait) -> &'static str {
    match wait {
        HotWait::Off | HotWait::Until(_) => "later",
        HotWait::Unfinished => "when this defragmentation is done",
        HotWait::NothingNew => "when random reads fetch much more than they need",
        HotWait::Spent => "when a day's part of the week is free again",
        HotWait::OtherTask => "when no other task runs",
        HotWait::LittleSpace => "when more space is free",
        HotWait::Busy => "when clients leave the device alone",
    }
}

/// Formats the same as JSON.
pub fn hot_chunks_object(server: &ServerState, live: &Live) -> Object {
    let status = &live.hot_chunks;
    let percent = server.tasks.shares().schedule.hot_chunks_percent;
    Object::new()
        .boolean("automatic", percent > 0)
        .integer("weekly_percent", percent)
        .boolean("running", server.tasks.own_defrag().is_some())
        .integer("runs_by_server", status.runs)
        .integer("copied_bytes", status.copied_bytes)
}

fn local(at_s: u64, zone: &TimeZone) -> String {
    let ns = i64::try_from(at_s).unwrap_or(i64::MAX);
    calendar::local(UnixNanos(ns.saturating_mul(1_000_000_000)), zone)
}

/// Returns the name of the run's origin.
fn name(run: &CollectNote) -> &'static str {
    match (run.by_command, run.urgency) {
        (true, _) => "a command",
        (false, Urgency::WhenIdle) => "the server itself",
        (false, Urgency::Low) => "the server itself, because little space was free",
        (false, Urgency::Full) => "the server itself, because the disk was nearly full",
    }
}

/// Formats the state of gc as JSON.
pub fn object(server: &ServerState, live: &Live) -> Object {
    let status = &live.collecting;
    let totals = &status.totals;
    let mut object = Object::new()
        .boolean("automatic", server.tasks.shares().schedule.collects)
        .boolean("running", status.running.is_some())
        .integer("runs_by_commands", totals.runs_by_commands)
        .integer("runs_by_server", totals.runs_by_server)
        .integer("deleted_bytes", totals.deleted_bytes)
        .integer("writers_waited", live.waits.waits)
        .number("held_back_seconds", live.waits.waited_ns as f64 / 1e9);
    if let Some(room) = live.room {
        object = object.integer("disk_free_bytes", room.free_bytes);
    }
    if let Some(run) = &status.last {
        object = last(object, "last_", run);
    }
    if let Some(next) = &status.next {
        object = object.integer("next_stored_bytes", next.stored_bytes);
        if next.free_bytes > 0 {
            object = object.integer("next_free_bytes", next.free_bytes);
        }
    }
    object
}

/// Adds the fields of the last gc run.
pub fn last(object: Object, prefix: &str, run: &CollectNote) -> Object {
    let by = match run.by_command {
        true => "command",
        false => "server",
    };
    object
        .text(&format!("{prefix}by"), by)
        .time(&format!("{prefix}ended"), run.at)
        .boolean(&format!("{prefix}complete"), run.is_complete)
        .integer(&format!("{prefix}deleted_bytes"), run.deleted_bytes)
        .integer(&format!("{prefix}discarded_bytes"), run.discarded_bytes)
}
