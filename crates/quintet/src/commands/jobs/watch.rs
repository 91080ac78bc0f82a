//! `run watch`: looks for sources without a recent backup, damage, and a full disk. [`super`] calls
//! this.
//!
//! Invariant: it only reads, in this process, also beside a server. A problem is notified of once a
//! day at most while it lasts, and again as soon as it returns.

use super::Run;
use super::memory::Memory;
use super::worse;
use crate::commands::invocation::Invocation;
use crate::commands::known_snapshots::KnownSnapshots;
use crate::commands::source_paths::normalized;
use crate::settings::Settings;
use clap::Parser;
use command_line::Cli;
use configuration::{Configuration, Event, Source, SourceKind, span};
use format::snapshot::{Snapshot, SnapshotKind};
use notifications::Subject;
use server::findings::{FindingsInput, Limits, Severity};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use store::OpenMode;
use terminal::calendar;
use terminal::exit::Exit;
use terminal::json::Object;
use units::{Origin, UnixNanos};

const DAY_S: i64 = 86_400;
const SECOND_NS: i64 = 1_000_000_000;
/// Kinds of findings about the file system of the pool.
const SPACE: [&str; 3] = ["disk_fills", "inodes_run_out", "disk_read_only"];
/// The tag of a source's last snapshot.
const FINAL: &str = "final";

/// One problem.
struct Problem {
    event: Event,
    /// Names it from one run to the next.
    key: String,
    job: String,
    text: String,
}

/// Runs the watch. Notifies of what it finds.
pub(super) fn run(run: &mut Run<'_>) -> anyhow::Result<Exit> {
    let invocation = run.invocation;
    let (problems, now) = look(run)?;
    let memory = Memory::of(invocation, "watch", run.pool())?;
    let before = times(&memory.recall().unwrap_or_default());
    let now_s = now.0.div_euclid(SECOND_NS);
    let mut reported = BTreeMap::new();
    let mut worst = Exit::Done;
    for problem in &problems {
        let exit = match problem.event {
            Event::Damage => Exit::Damaged,
            Event::Failure | Event::Space | Event::Silence => Exit::Partly,
        };
        worst = worse(worst, exit);
        invocation.console.line(&problem.text)?;
        let last = before.get(&problem.key).copied();
        let is_due = is_due(last, now_s);
        let subject = Subject::Problem(problem.event);
        let is_reported = !is_due || run.notify(subject, &problem.job, None, &problem.text);
        if let Some(last) = last.filter(|_| !is_due) {
            reported.insert(&problem.key, last);
        } else if is_reported {
            reported.insert(&problem.key, now_s);
        }
        invocation.console.message(
            Object::message("problem")
                .text("event", problem.event.word())
                .text("job", &problem.job)
                .text("message", &problem.text)
                .boolean("notified", is_due && is_reported),
        )?;
    }
    let lines = reported.iter().map(|(key, at)| format!("{at} {key}\n"));
    let text: String = lines.collect();
    if !text.is_empty() || !before.is_empty() {
        let effect = "the same problem is reported again by the next run";
        memory.remember(invocation, &text, effect);
    }
    Ok(worst)
}

/// Returns true if a problem that was last reported then is reported now.
fn is_due(last_s: Option<i64>, now_s: i64) -> bool {
    last_s.is_none_or(|last_s| !(0..DAY_S).contains(&now_s.saturating_sub(last_s)))
}

/// Reads the times of reports.
fn times(text: &str) -> BTreeMap<String, i64> {
    let time = |line: &str| {
        let (time, key) = line.split_once(' ')?;
        Some((key.to_owned(), time.parse().ok()?))
    };
    text.lines().filter_map(time).collect()
}

/// Returns all problems, and the present time.
fn look(run: &Run<'_>) -> anyhow::Result<(Vec<Problem>, UnixNanos)> {
    let own = run.invocation;
    let arguments = run.arguments(vec![OsString::from("status")]);
    let cli = Cli::try_parse_from(&arguments)?;
    let (context, kept) = run.context()?;
    let settings = Settings::new(&cli.global, &context)?;
    let console = Arc::clone(&own.console);
    let origin = (Origin::Restore, &*arguments);
    let invocation = Invocation::new(settings, context, console, None, origin);
    let looked = look_at_pool(&invocation, &run.file.configuration);
    invocation.leave_hints();
    invocation.remember_pools();
    drop(invocation);
    drop(kept);
    looked
}

fn look_at_pool(
    invocation: &Invocation,
    configuration: &Configuration,
) -> anyhow::Result<(Vec<Problem>, UnixNanos)> {
    let pool = invocation.open_silently(OpenMode::Read)?;
    let snapshots = KnownSnapshots::of(invocation, &pool)?;
    let look = FindingsInput {
        pool: &pool,
        server: None,
        snapshots: &snapshots,
        hidden: snapshots.hidden(),
        now: pool.now(),
        limits: Limits::default(),
    };
    let mut problems = Vec::new();
    for source in &configuration.sources {
        problems.extend(silence(invocation, source, &snapshots, look.now)?);
    }
    for finding in look.findings() {
        let event = match finding.severity {
            _ if SPACE.contains(&finding.kind) => Event::Space,
            Severity::Damage => Event::Damage,
            // The others are known from the jobs, or from `silent-after`.
            _ => continue,
        };
        problems.push(Problem {
            event,
            key: format!("{} {}", finding.kind, finding.object),
            job: "watch".to_owned(),
            text: format!("{}; {}", finding.text, finding.action),
        });
    }
    Ok((problems, look.now))
}

/// Returns the problem of a source whose newest snapshot is too old, or that has none.
fn silence(
    invocation: &Invocation,
    source: &Source,
    snapshots: &[Snapshot],
    now: UnixNanos,
) -> anyhow::Result<Option<Problem>> {
    let Some(limit_s) = source.silent_after_s() else {
        return Ok(None);
    };
    let host = invocation.host(None);
    let paths: Vec<Vec<u8>> = match &source.kind {
        SourceKind::Tree(tree) => {
            let paths = normalized(&tree.paths.value)?.into_iter();
            paths
                .map(|path| path.as_os_str().as_bytes().to_vec())
                .collect()
        }
        SourceKind::Stream(_) => Vec::new(),
    };
    let is_of_source = |snapshot: &&Snapshot| {
        let is_it = match &source.kind {
            SourceKind::Tree(_) => snapshot.kind == SnapshotKind::Tree && snapshot.paths == paths,
            SourceKind::Stream(stream) => {
                snapshot.kind == SnapshotKind::Stream && snapshot.name == stream.name
            }
        };
        // A snapshot from the future says nothing of the present.
        is_it && snapshot.host == host && !snapshot.taken.is_ahead_of(now)
    };
    let own = snapshots.iter().filter(is_of_source);
    let newest = own.max_by_key(|snapshot| snapshot.taken);
    let name = &source.name;
    let text = match newest {
        None => format!("{name}: never backed up; run quintet run {name}"),
        Some(newest) if newest.tags.iter().any(|tag| tag == FINAL) => return Ok(None),
        Some(newest) if !is_silent(newest.taken, now, limit_s) => return Ok(None),
        Some(newest) => format!(
            "{name}: no backup since {}, and one is due within {}; see systemctl list-timers, or run quintet run {name}",
            calendar::local(newest.taken, &invocation.zone),
            span(limit_s)
        ),
    };
    Ok(Some(Problem {
        event: Event::Silence,
        key: format!("silence {name}"),
        job: name.clone(),
        text,
    }))
}

fn is_silent(newest: UnixNanos, now: UnixNanos, limit_s: u64) -> bool {
    let limit_ns = i64::try_from(limit_s)
        .unwrap_or(i64::MAX)
        .saturating_mul(SECOND_NS);
    now.0.saturating_sub(newest.0) > limit_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_problem_is_reported_once_a_day() {
        assert!(is_due(None, 100));
        assert!(!is_due(Some(100), 100));
        assert!(!is_due(Some(100), 100 + DAY_S - 1));
        assert!(is_due(Some(100), 100 + DAY_S));
        assert!(is_due(Some(100), 99), "the clock was ahead");
    }

    #[test]
    fn reports_are_remembered_by_line() {
        let read = times("7 silence db\ntorn\n9 disk_fills \n");
        let expected = [("disk_fills ".to_owned(), 9), ("silence db".to_owned(), 7)];
        assert_eq!(read.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn silence_begins_after_the_limit() {
        let at = |s: i64| UnixNanos(s * SECOND_NS);
        assert!(!is_silent(at(0), at(3600), 3600));
        assert!(is_silent(at(0), at(3601), 3600));
        assert!(!is_silent(at(10), at(0), 3600));
    }
}
