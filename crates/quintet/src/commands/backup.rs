//! `backup`: file trees, or a stream from standard input or a command.

use super::invocation::{Invocation, program};
use super::snapshot_choice::{SnapshotFilter, choose, short_id};
use super::source_paths;
use crate::backup::{TreeOutcome, TreePlan, back_up_trees};
use crate::cli::BackupArgs;
use crate::console::Console;
use crate::exit::Exit;
use crate::image::{Stream, ingest_stream};
use crate::json::Object;
use crate::progress::Progress;
use crate::selection::{BackupSelection, Marker, Patterns};
use crate::sizes;
use anyhow::{Context, bail};
use format::recipe::ObjectRoot;
use format::snapshot::{Snapshot, SnapshotKind};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Stdio};
use std::time::Instant;
use store::{LaneOptions, OpenMode, Pool, WriteCounts, WriteSession};
use units::UnixNanos;

/// Raw bytes of a region: larger compresses better, smaller reads faster at random (see
/// `docs/decisions/`, regions).
pub(super) const REGION_BYTES: usize = 1536 << 10;

/// What all new snapshots have in common.
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
        Ok(Self {
            host: invocation.host(host),
            user: invocation.user(),
            taken: invocation.time(time, pool)?,
            tags,
        })
    }

    /// A record that lacks only what the kind of source knows.
    pub fn snapshot(&self, pool: &Pool, kind: SnapshotKind, root: ObjectRoot) -> Snapshot {
        Snapshot {
            id: pool.new_snapshot_id(),
            taken: self.taken,
            kind,
            root,
            name: String::new(),
            host: self.host.clone(),
            user: self.user.clone(),
            program: program(),
            paths: Vec::new(),
            tags: self.tags.clone(),
            files: 0,
            directories: 0,
            logical_bytes: root.len,
            added_bytes: 0,
            duration_ms: 0,
            parent: Default::default(),
            signature: Vec::new(),
        }
    }
}

/// Commits a new snapshot, or only says what it would be in a dry run.
pub(super) fn commit(
    pool: &Pool,
    mut session: WriteSession,
    mut snapshot: Snapshot,
    started: Instant,
    dry_run: bool,
) -> anyhow::Result<(Snapshot, WriteCounts)> {
    let counts = session.seal_data()?;
    snapshot.added_bytes = counts.stored_bytes;
    snapshot.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    if dry_run {
        // What is stored stays for the next run to find; nothing refers to it.
        session.abandon()?;
        return Ok((snapshot, counts));
    }
    let committed = pool.commit(session, std::slice::from_ref(&snapshot), &[])?;
    Ok((snapshot, committed.counts))
}

/// Runs the command.
pub(super) fn run(invocation: &Invocation, args: &BackupArgs) -> anyhow::Result<Exit> {
    if args.stdin || args.stdin_from_command {
        return stream(invocation, args);
    }
    let started = Instant::now();
    let paths = source_paths::collect(args)?;
    let selection = selection(args)?;
    let lane = invocation.lane(args.compression.as_deref(), REGION_BYTES)?;
    let mode = if args.dry_run {
        OpenMode::Read
    } else {
        OpenMode::Write
    };
    let pool = invocation.open(mode)?;
    let identity = identity(invocation, args, &pool)?;
    let stored_paths: Vec<_> = paths
        .iter()
        .map(|p| p.as_os_str().as_bytes().to_vec())
        .collect();
    let parent = find_parent(&pool, args, &identity, &stored_paths)?;
    let progress = invocation.progress("backing up");
    if args.dry_run {
        return dry_run(
            invocation,
            &pool,
            &paths,
            &selection,
            parent.as_ref(),
            &progress,
        );
    }
    let mut session = pool.begin(lane)?;
    let plan = TreePlan {
        paths: &paths,
        selection: &selection,
        parent: parent.as_ref().map(|p| p.root),
        workers: args
            .read_concurrency
            .map_or_else(|| invocation.workers(), usize::from),
        lane,
    };
    let (root, outcome) = match back_up_trees(&pool, &mut session, &plan, &progress) {
        Ok(stored) => stored,
        Err(e) => {
            // What was stored so far is kept for the next run.
            let _ = session.abandon();
            return Err(e.into());
        }
    };
    let mut snapshot = identity.snapshot(&pool, SnapshotKind::Tree, root);
    snapshot.paths = stored_paths;
    snapshot.files = outcome.files;
    snapshot.directories = outcome.directories;
    snapshot.logical_bytes = outcome.bytes;
    snapshot.parent = parent.map(|p| p.id).unwrap_or_default();
    let (snapshot, counts) = commit(&pool, session, snapshot, started, false)?;
    drop(progress);
    summary(&invocation.console, &snapshot, &outcome, &counts)?;
    Ok(if outcome.failures > 0 {
        Exit::Partly
    } else {
        Exit::Done
    })
}

fn identity(invocation: &Invocation, args: &BackupArgs, pool: &Pool) -> anyhow::Result<Identity> {
    Identity::new(
        invocation,
        pool,
        args.host.as_deref(),
        args.time.as_deref(),
        &args.tag,
    )
}

/// What is left out.
fn selection(args: &BackupArgs) -> anyhow::Result<BackupSelection> {
    let mut excludes = Patterns::default();
    for (patterns, fold_case) in [(&args.exclude, false), (&args.iexclude, true)] {
        for pattern in patterns {
            excludes.add(pattern.as_bytes(), fold_case)?;
        }
    }
    for (files, fold_case) in [(&args.exclude_file, false), (&args.iexclude_file, true)] {
        for file in files {
            let lines = std::fs::read(file).with_context(|| file.display().to_string())?;
            excludes.add_lines(&lines, fold_case)?;
        }
    }
    let mut markers = Vec::new();
    if args.exclude_caches {
        markers.push(Marker::cache());
    }
    for marker in &args.exclude_if_present {
        markers.push(Marker::parse(marker.as_bytes())?);
    }
    Ok(BackupSelection {
        excludes,
        markers,
        one_file_system: args.one_file_system,
        larger_than: args.exclude_larger_than,
    })
}

/// The newest tree of this host and these paths, unless everything is to be read again.
fn find_parent(
    pool: &Pool,
    args: &BackupArgs,
    identity: &Identity,
    paths: &[Vec<u8>],
) -> anyhow::Result<Option<Snapshot>> {
    if args.force {
        return Ok(None);
    }
    let snapshots = pool.snapshots()?;
    if let Some(wanted) = &args.parent {
        let kind = Some(SnapshotKind::Tree);
        return Ok(Some(
            choose(&snapshots, wanted, kind, &SnapshotFilter::default())?.clone(),
        ));
    }
    let mut snapshots = snapshots.into_iter().rev();
    Ok(snapshots
        .find(|s| s.kind == SnapshotKind::Tree && s.host == identity.host && s.paths == paths))
}

fn dry_run(
    invocation: &Invocation,
    pool: &Pool,
    paths: &[std::path::PathBuf],
    selection: &BackupSelection,
    parent: Option<&Snapshot>,
    progress: &Progress,
) -> anyhow::Result<Exit> {
    let outcome =
        crate::backup::count_trees(pool, paths, selection, parent.map(|p| p.root), progress)?;
    invocation.console.line(format!(
        "would back up {} files in {} directories, {}: {} files unchanged, {} to read",
        outcome.files,
        outcome.directories,
        sizes::display(outcome.bytes),
        outcome.files_unchanged,
        outcome.files - outcome.files_unchanged,
    ))?;
    invocation.console.message(
        Object::message("summary")
            .boolean("dry_run", true)
            .integer("total_files_processed", outcome.files)
            .integer("files_unmodified", outcome.files_unchanged)
            .integer("total_bytes_processed", outcome.bytes),
    )?;
    Ok(if outcome.failures > 0 {
        Exit::Partly
    } else {
        Exit::Done
    })
}

fn stream(invocation: &Invocation, args: &BackupArgs) -> anyhow::Result<Exit> {
    let started = Instant::now();
    let lane = invocation.lane(args.compression.as_deref(), REGION_BYTES)?;
    let pool = invocation.open(OpenMode::Write)?;
    let identity = identity(invocation, args, &pool)?;
    let mut session = pool.begin(lane)?;
    let progress = invocation.progress("storing");
    let root = match read_stream(invocation, args, &mut session, lane, &progress) {
        Ok(root) => root,
        Err(e) => {
            let _ = session.abandon();
            return Err(e);
        }
    };
    let mut snapshot = identity.snapshot(&pool, SnapshotKind::Stream, root);
    snapshot.name = args.stdin_filename.clone();
    snapshot.files = 1;
    let (snapshot, counts) = commit(&pool, session, snapshot, started, args.dry_run)?;
    drop(progress);
    let outcome = TreeOutcome {
        files: 1,
        bytes: root.len,
        ..TreeOutcome::default()
    };
    summary(&invocation.console, &snapshot, &outcome, &counts)?;
    Ok(Exit::Done)
}

fn read_stream(
    invocation: &Invocation,
    args: &BackupArgs,
    session: &mut WriteSession,
    lane: LaneOptions,
    progress: &Progress,
) -> anyhow::Result<ObjectRoot> {
    let name = args.stdin_filename.clone();
    if args.stdin {
        let stream = Stream {
            reader: std::io::stdin().lock(),
            name,
        };
        let workers = invocation.workers();
        return Ok(ingest_stream(session, stream, lane, workers, progress)?);
    }
    let mut child = start(args)?;
    let Some(output) = child.stdout.take() else {
        bail!("the command has no output");
    };
    let root = ingest_stream(
        session,
        Stream {
            reader: output,
            name,
        },
        lane,
        invocation.workers(),
        progress,
    );
    if root.is_err() {
        // It may be waiting for us to read on.
        let _ = child.kill();
    }
    let status = child.wait().context("command")?;
    let root = root?;
    if !status.success() {
        bail!("command: {status}; nothing was stored");
    }
    Ok(root)
}

fn start(args: &BackupArgs) -> anyhow::Result<Child> {
    let Some((program, rest)) = args.paths.split_first() else {
        bail!("--stdin-from-command needs a command");
    };
    std::process::Command::new(program)
        .args(rest)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| program.display().to_string())
}

/// Says what was stored.
pub(super) fn summary(
    console: &Console,
    snapshot: &Snapshot,
    outcome: &TreeOutcome,
    counts: &WriteCounts,
) -> anyhow::Result<()> {
    let seconds = snapshot.duration_ms as f64 / 1000.0;
    console.line(format!(
        "files: {} ({} unchanged, {} changed, {} not read), directories: {}",
        outcome.files,
        outcome.files_unchanged,
        outcome.files_changed,
        outcome.failures,
        outcome.directories,
    ))?;
    console.line(format!(
        "processed {} in {seconds:.2} s; new {} in {} chunks, stored {}",
        sizes::display(outcome.bytes),
        sizes::display(counts.new_bytes),
        counts.chunks_new,
        sizes::display(counts.stored_bytes),
    ))?;
    console.line(format!("snapshot {} saved", short_id(snapshot)))?;
    console.message(
        Object::message("summary")
            .text("snapshot_id", &snapshot.id.to_string())
            .integer("total_files_processed", outcome.files)
            .integer("files_unmodified", outcome.files_unchanged)
            .integer("files_changed", outcome.files_changed)
            .integer("files_failed", outcome.failures)
            .integer("directories", outcome.directories)
            .integer("total_bytes_processed", outcome.bytes)
            .integer("data_added", counts.new_bytes)
            .integer("data_added_packed", counts.stored_bytes)
            .integer("chunks_new", counts.chunks_new)
            .integer("chunks_known", counts.chunks_known)
            .number("total_duration", seconds),
    )?;
    Ok(())
}
