//! `backup --stdin` and `--stdin-from-command`: stores a stream up to its end. `backup` calls this.
//!
//! Invariant: nothing is committed if the command fails.

use super::{REGION_BYTES, identity};
use crate::cli::BackupArgs;
use crate::commands::full;
use crate::commands::invocation::Invocation;
use crate::commands::known_snapshots::KnownSnapshots;
use crate::commands::new_snapshot::{commit, summary};
use crate::progress::Progress;
use anyhow::{Context, bail};
use archive::backup::TreeOutcome;
use archive::image::{Stream, ingest_stream};
use format::recipe::ObjectRoot;
use format::snapshot::SnapshotKind;
use std::process::{Child, Stdio};
use std::time::Instant;
use store::{LaneOptions, OpenMode, WriteSession};
use terminal::exit::Exit;

pub(super) fn run(invocation: &Invocation, args: &BackupArgs) -> anyhow::Result<Exit> {
    if args.dry_run {
        bail!("--dry-run is not possible for a stream; remove it");
    }
    let started = Instant::now();
    let region_bytes = args.region_size.unwrap_or(REGION_BYTES);
    let lane = invocation.lane(args.compression.as_deref(), region_bytes)?;
    let pool = invocation.open(OpenMode::Write)?;
    let identity = identity(invocation, args, &pool)?;
    KnownSnapshots::of(invocation, &pool)?.expect_free(&args.stdin_filename)?;
    let mut session = pool.begin(lane)?;
    let progress = invocation.progress("storing");
    let root = match read_stream(invocation, args, &mut session, lane, &progress) {
        Ok(root) => root,
        Err(e) => {
            let _ = session.abandon();
            return Err(full::explained(&pool, e));
        }
    };
    let mut snapshot = identity.snapshot(&pool, SnapshotKind::Stream, root);
    snapshot.name = args.stdin_filename.clone();
    snapshot.files = 1;
    let (snapshot, counts) = commit(&invocation.console, &pool, session, snapshot, started)?;
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
            reader: invocation.context.input()?,
            name,
        };
        let workers = invocation.workers();
        return Ok(ingest_stream(session, stream, lane, workers, progress)?);
    }
    let mut child = start(invocation, args)?;
    let Some(output) = invocation.context.input_from(&mut child) else {
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
        // The command may be blocked on its output, which is no longer read.
        let _ = child.kill();
    }
    let status = invocation.context.wait(&mut child);
    let (root, status) = (root?, status?);
    if !status.success() {
        bail!("the command failed ({status}); nothing was stored");
    }
    Ok(root)
}

fn start(invocation: &Invocation, args: &BackupArgs) -> anyhow::Result<Child> {
    let Some((program, rest)) = args.paths.split_first() else {
        bail!("--stdin-from-command needs a command");
    };
    invocation
        .context
        .program(program)
        .and_then(|mut command| command.args(rest).stdout(Stdio::piped()).spawn())
        .with_context(|| format!("cannot run {}", program.display()))
}
