//! Common parts of all commands that store something: identity of the snapshot, commit, summary.
//! `backup` and `import` call this.
//!
//! Invariant: a snapshot is committed once, after all of its data.

use super::full;
use super::invocation::{Invocation, program};
use anyhow::Context;
use archive::backup::TreeOutcome;
use format::recipe::ObjectRoot;
use format::snapshot::{Snapshot, SnapshotKind};
use retention::{GroupBy, group};
use std::time::Instant;
use store::{Pool, WriteCounts, WriteSession};
use terminal::calendar;
use terminal::console::Console;
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::names::short_id;
use terminal::sizes;
use units::UnixNanos;
use units::count;

/// Properties that do not depend on the kind of source.
pub(super) struct Identity {
    pub host: String,
    pub user: String,
    pub taken: UnixNanos,
    pub tags: Vec<String>,
}

impl Identity {
    pub fn new(
        invocation: &Invocation,
        pool: &Pool,
        host: Option<&str>,
        time: Option<&str>,
        tags: &[String],
    ) -> anyhow::Result<Self> {
        let mut tags = tags.to_vec();
        tags.retain(|t| !t.is_empty());
        tags.sort();
        tags.dedup();
        let committed = pool.record().committed;
        if time.is_none() && committed.is_ahead_of(pool.now()) {
            let time = calendar::local(committed, &invocation.zone);
            invocation.console.warn(format_args!(
                "the newest commit of the pool is of {time}, which is in the future: a clock was \
                 ahead, or this machine's is behind; compare them (timedatectl)"
            ));
        }
        Ok(Self {
            host: invocation.host(host),
            user: invocation.user(),
            taken: invocation.time(time, pool)?,
            tags,
        })
    }

    /// Makes a snapshot record without the fields that depend on the kind of source.
    pub fn snapshot(&self, pool: &Pool, kind: SnapshotKind, root: ObjectRoot) -> Snapshot {
        Snapshot {
            host: self.host.clone(),
            user: self.user.clone(),
            program: program(),
            tags: self.tags.clone(),
            ..Snapshot::new(pool.new_snapshot_id(), self.taken, kind, root)
        }
    }
}

/// Commits a new snapshot. Warns if the index could not be written.
pub(super) fn commit(
    console: &Console,
    pool: &Pool,
    session: WriteSession,
    snapshot: Snapshot,
    started: Instant,
) -> anyhow::Result<(Snapshot, WriteCounts)> {
    let committed = committed(console, pool, session, snapshot, started);
    committed.map_err(|e| full::explained(pool, e.into()))
}

fn committed(
    console: &Console,
    pool: &Pool,
    mut session: WriteSession,
    mut snapshot: Snapshot,
    started: Instant,
) -> store::Result<(Snapshot, WriteCounts)> {
    let counts = session.seal_data()?;
    snapshot.added_bytes = counts.stored_bytes;
    snapshot.previous = previous_of(pool, &snapshot)?;
    snapshot.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let committed = pool.commit(session, std::slice::from_ref(&snapshot), &[])?;
    if let Some(why) = pool.health().index_failure() {
        console.warn(format_args!(
            "the fingerprint index could not be written. No data is lost; later commands take longer: {why}"
        ));
    }
    Ok((snapshot, committed.counts))
}

/// Returns when the previous snapshot of the same source was taken. Zero if no readable one exists.
fn previous_of(pool: &Pool, snapshot: &Snapshot) -> store::Result<UnixNanos> {
    let (known, _) = pool.snapshots_readable()?;
    let older = known.iter().filter(|known| known.taken < snapshot.taken);
    let groups = group(older.chain([snapshot]), GroupBy::default());
    let own = groups
        .iter()
        .find(|group| group.snapshots.first() == Some(&snapshot));
    let previous = own.and_then(|group| group.snapshots.get(1));
    Ok(previous.map_or_else(UnixNanos::default, |previous| previous.taken))
}

/// Returns true if `new` would say the same as `before`, with nothing missed in either. The
/// contents of a root include all names and metadata.
pub(super) fn is_the_same(pool: &Pool, before: &Snapshot, new: &Snapshot) -> bool {
    let source = |s: &Snapshot| (s.kind, s.name.clone(), s.host.clone(), s.paths.clone());
    before.root == new.root
        && source(before) == source(new)
        && before.tags == new.tags
        && before.owners == new.owners
        && before.missed.is_nothing()
        && new.missed.is_nothing()
        // Data that is damaged must be stored again.
        && pool.reader().is_believed_whole(&before.root)
}

/// Ends a run whose snapshot would be the same as `before`: nothing is committed. Says so.
pub(super) fn skip(
    invocation: &Invocation,
    session: WriteSession,
    before: &Snapshot,
    (outcome, started): (&TreeOutcome, Instant),
) -> anyhow::Result<Exit> {
    let counts = session.counts();
    session.abandon()?;
    let console = &invocation.console;
    let seconds = started.elapsed().as_secs_f64();
    print_contents(console, before, outcome, (&counts, seconds))?;
    console.line(format!(
        "no snapshot saved: nothing differs from {} of {}",
        short_id(before),
        calendar::local(before.taken, &invocation.zone),
    ))?;
    let message = Object::message("summary")
        .boolean("skipped", true)
        .text("unchanged_snapshot_id", &before.id.to_string());
    console.message(with_counts(message, outcome, (&counts, seconds)))?;
    Ok(Exit::Done)
}

/// Prints what was stored. If that fails, the error says that it was stored.
pub(super) fn summary(
    console: &Console,
    snapshot: &Snapshot,
    outcome: &TreeOutcome,
    counts: &WriteCounts,
) -> anyhow::Result<()> {
    let printed = print(console, snapshot, outcome, counts);
    printed
        .and_then(|()| Ok(console.flush()?))
        .with_context(|| {
            let id = short_id(snapshot);
            format!("snapshot {id} is saved, but the output cannot be written")
        })
}

fn print(
    console: &Console,
    snapshot: &Snapshot,
    outcome: &TreeOutcome,
    counts: &WriteCounts,
) -> anyhow::Result<()> {
    let seconds = snapshot.duration_ms as f64 / 1000.0;
    print_contents(console, snapshot, outcome, (counts, seconds))?;
    console.line(format!("snapshot {} saved", short_id(snapshot)))?;
    let message = Object::message("summary").text("snapshot_id", &snapshot.id.to_string());
    console.message(with_counts(message, outcome, (counts, seconds)))?;
    Ok(())
}

/// Prints what was read, and what of it was new.
fn print_contents(
    console: &Console,
    snapshot: &Snapshot,
    outcome: &TreeOutcome,
    (counts, seconds): (&WriteCounts, f64),
) -> std::io::Result<()> {
    let size = sizes::display(outcome.bytes);
    let stored = format!(
        "in {seconds:.2} s; new {} in {}, stored {}",
        sizes::display(counts.new_bytes),
        count(counts.chunks_new, "chunk"),
        sizes::display(counts.stored_bytes),
    );
    let name = &snapshot.name;
    let object = match snapshot.kind {
        SnapshotKind::Tree => {
            print_files(console, outcome)?;
            return console.line(format!("processed {size} {stored}"));
        }
        SnapshotKind::Image => "image",
        SnapshotKind::Stream => "stream",
        SnapshotKind::Volume => "volume",
    };
    if outcome.files_unchanged > 0 {
        return console.line(format!("{object} {name}: {size}, unchanged and not read"));
    }
    console.line(format!("{object} {name}: read {size} {stored}"))?;
    if outcome.failures > 0 {
        console.line(format!("parts of the {object} could not be read"))?;
    }
    if outcome.changed_while_read > 0 {
        console.line(format!(
            "the {object} changed while being read. The stored contents may mix two states; the next run reads it again"
        ))?;
    }
    Ok(())
}

fn print_files(console: &Console, outcome: &TreeOutcome) -> std::io::Result<()> {
    console.line(format!(
        "files: {} ({} new, {} changed, {} unchanged, {} not read), directories: {}",
        outcome.files,
        outcome
            .files
            .saturating_sub(outcome.files_unchanged + outcome.files_changed),
        outcome.files_changed,
        outcome.files_unchanged,
        outcome.failures,
        outcome.directories,
    ))?;
    if outcome.changed_while_read > 0 {
        console.line(format!(
            "{} changed while being read. The stored contents may mix two states; the next backup reads the files \
             again",
            count(outcome.changed_while_read, "file")
        ))?;
    }
    Ok(())
}

fn with_counts(
    message: Object,
    outcome: &TreeOutcome,
    (counts, seconds): (&WriteCounts, f64),
) -> Object {
    message
        .integer("total_files_processed", outcome.files)
        .integer("files_unmodified", outcome.files_unchanged)
        .integer("files_changed", outcome.files_changed)
        .integer("files_failed", outcome.failures)
        .integer("files_changed_while_read", outcome.changed_while_read)
        .integer("directories", outcome.directories)
        .integer("total_bytes_processed", outcome.bytes)
        .integer("files_read_ahead_of_order", outcome.memory.files_ahead)
        .integer("files_asked_about_memory", outcome.memory.files_asked)
        .integer("bytes_found_in_memory", outcome.memory.bytes_found)
        .integer("bytes_dropped_from_memory", outcome.memory.bytes_dropped)
        .integer("source_snapshots", outcome.frozen.snapshots)
        .integer("files_read_from_reflinks", outcome.frozen.reflinks)
        .integer("files_not_from_a_snapshot", outcome.frozen.not_frozen)
        .integer("data_added", counts.new_bytes)
        .integer("data_added_packed", counts.stored_bytes)
        .integer("chunks_new", counts.chunks_new)
        .integer("chunks_known", counts.chunks_known)
        .number("total_duration", seconds)
}
