//! `backup --stdin` and `--stdin-from-command`: stores a stream up to its end. `backup` calls this.
//!
//! Invariant: nothing is committed if the command fails, or if not a byte came and the user did not
//! expect that.

use super::super::unfinished;
use super::{REGION_BYTES, identity};
use crate::commands::failure;
use crate::commands::full;
use crate::commands::invocation::Invocation;
use crate::commands::known_snapshots::KnownSnapshots;
use crate::commands::new_snapshot::{commit, is_the_same, skip, summary};
use crate::progress::ArchiveProgress;
use anyhow::{Context, anyhow, bail};
use archive::backup::TreeOutcome;
use archive::image::{PipeStream, ingest_stream};
use command_line::BackupArgs;
use format::recipe::ObjectRoot;
use format::snapshot::SnapshotKind;
use std::process::Stdio;
use std::time::Instant;
use store::{LaneOptions, OpenMode, WriteSession};
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::outside_program::OutsideProgram;

pub(super) fn run(invocation: &Invocation, args: &BackupArgs) -> anyhow::Result<Exit> {
    if args.dry_run {
        bail!("--dry-run is not possible for a stream; remove it");
    }
    let started = Instant::now();
    let region_bytes = args.region_size.unwrap_or(REGION_BYTES);
    let lane = invocation.lane(args.compression.as_deref(), region_bytes)?;
    let pool = invocation.open(OpenMode::Write)?;
    let identity = identity(invocation, args, &pool)?;
    let known = KnownSnapshots::of(invocation, &pool)?;
    known.expect_free(SnapshotKind::Stream, &args.stdin_filename)?;
    let mut session = pool.begin(lane)?;
    let progress = invocation.progress("storing").limited(args.limit);
    let root = match read_stream(invocation, args, &mut session, lane, &progress) {
        Ok(root) if root.len > 0 || args.allow_empty => root,
        stored => {
            let e = stored.err().unwrap_or_else(|| nothing_came(args));
            unfinished::end(invocation, session);
            if !is_stop(&e)
                && let Err(why) = pool.note_stream(&args.stdin_filename, true)
            {
                let console = &invocation.console;
                console.warn(format_args!("quintet status will not know of this: {why}"));
            }
            return Err(full::explained(&pool, e));
        }
    };
    let mut snapshot = identity.snapshot(&pool, SnapshotKind::Stream, root);
    snapshot.name = args.stdin_filename.clone();
    snapshot.files = 1;
    let outcome = TreeOutcome {
        files: 1,
        bytes: root.len,
        ..TreeOutcome::default()
    };
    let before = known.iter().rfind(|s| {
        s.kind == SnapshotKind::Stream && s.name == snapshot.name && s.host == snapshot.host
    });
    if let Some(before) = before.filter(|_| args.skip_if_unchanged)
        && is_the_same(&pool, before, &snapshot)
    {
        let _ = pool.note_stream(&args.stdin_filename, false);
        drop(progress);
        return skip(invocation, session, before, (&outcome, started));
    }
    let (snapshot, counts) = commit(&invocation.console, &pool, session, snapshot, started)?;
    // A record that stays reports too much, never too little.
    let _ = pool.note_stream(&args.stdin_filename, false);
    drop(progress);
    summary(&invocation.console, &snapshot, &outcome, &counts)?;
    Ok(Exit::Done)
}

/// Returns true if the user has stopped the run.
fn is_stop(error: &anyhow::Error) -> bool {
    failure::exit_of(error) == Exit::Interrupted
}

fn read_stream(
    invocation: &Invocation,
    args: &BackupArgs,
    session: &mut WriteSession,
    lane: LaneOptions,
    progress: &ArchiveProgress,
) -> anyhow::Result<ObjectRoot> {
    let name = args.stdin_filename.clone();
    if args.stdin {
        let stream = PipeStream {
            reader: invocation.context.input()?,
            name,
        };
        let workers = invocation.workers();
        return Ok(ingest_stream(session, stream, lane, workers, progress)?);
    }
    let mut helper = start(invocation, args)?;
    let Some(output) = invocation.context.input_from(&mut helper.child) else {
        bail!("the command has no output");
    };
    let root = ingest_stream(
        session,
        PipeStream {
            reader: output,
            name,
        },
        lane,
        invocation.workers(),
        progress,
    );
    if root.is_err() {
        // The command may be blocked on its output, which is no longer read.
        let _ = helper.child.kill();
    }
    let ended = helper.wait(&invocation.context);
    let (root, ended) = (root?, ended?);
    let said = ended.success().context("nothing was stored")?;
    if !said.is_empty() {
        // The user of the text format has seen it already.
        invocation.console.message(
            Object::message("helper_output")
                .text("program", &program_of(args))
                .text("text", &said),
        )?;
    }
    Ok(root)
}

/// Returns the error of a stream without a byte.
fn nothing_came(args: &BackupArgs) -> anyhow::Error {
    const REMEDY: &str = "nothing was stored. --allow-empty stores an empty state";
    match args.stdin {
        // A pipe does not tell whether its writer failed.
        true => anyhow!(
            "standard input is empty or closed, as if the program before the pipe had failed; {REMEDY}; \
             --stdin-from-command notices a program that fails"
        ),
        false => anyhow!("{} wrote nothing; {REMEDY}", program_of(args)),
    }
}

fn program_of(args: &BackupArgs) -> String {
    let program = args.paths.first().map(|program| program.display());
    program.map_or_else(String::new, |program| program.to_string())
}

fn start(invocation: &Invocation, args: &BackupArgs) -> anyhow::Result<OutsideProgram> {
    let Some((program, rest)) = args.paths.split_first() else {
        bail!("--stdin-from-command needs a command");
    };
    let (context, shows) = (&invocation.context, !invocation.console.json());
    let name = program_of(args);
    context
        .program(program)
        .and_then(|mut command| {
            command.args(rest).stdout(Stdio::piped());
            OutsideProgram::start(context, &mut command, &name, shows)
        })
        .with_context(|| format!("cannot run {name}"))
}
