//! `rewrite`: makes a snapshot without some files, or of another host or time, from one that is
//! stored. [`super::run`] calls this.
//!
//! Invariant: the old snapshot stays unless the user says `--forget`, and is forgotten only after
//! the new one is durable. No contents of files are read or stored.

use super::full;
use super::invocation::{Invocation, program};
use super::selected;
use super::unfinished;
use anyhow::{Context, anyhow, bail};
use archive::rewrite::{RewriteError, RewriteOutcome, RewritePlan, rewrite_tree};
use archive::selection::Patterns;
use browsing::choice::{SnapshotFilter, choose_several, expect_latest_known};
use browsing::listing;
use command_line::RewriteArgs;
use format::recipe::ObjectRoot;
use format::snapshot::{Snapshot, SnapshotKind};
use format::tree::{Entry, EntryKind};
use store::{LaneOptions, OpenMode, Pool};
use terminal::console::printable;
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::names::short_id;
use terminal::sizes;
use units::{SnapshotId, UnixNanos, count};

/// Runs the command.
pub(super) fn run(invocation: &Invocation, args: &RewriteArgs) -> anyhow::Result<Exit> {
    let excludes = selected::excludes(&invocation.context, &args.excludes)?;
    if excludes.is_empty() && args.host.is_none() && args.time.is_none() {
        bail!("nothing to change: give --exclude, --host or --time");
    }
    let mode = match args.dry_run {
        true => OpenMode::Read,
        false => OpenMode::Write,
    };
    let pool = invocation.open(mode)?;
    let all = pool.snapshots()?;
    expect_latest_known(&pool, &args.snapshots)?;
    let mut meant = choose_several(&all, &args.snapshots, &SnapshotFilter::default())?;
    if args.all {
        meant.retain(|s| s.kind == SnapshotKind::Tree);
    }
    if args.time.is_some() && meant.len() > 1 {
        bail!("--time gives one time to several snapshots; name one snapshot");
    }
    // Everything that can be refused is refused before the first change.
    for snapshot in &meant {
        refuse(snapshot, &excludes)?;
    }
    let mut made = 0;
    for snapshot in &meant {
        made += u64::from(one(invocation, &pool, args, &excludes, (snapshot, &all))?);
    }
    let console = &invocation.console;
    console.message(
        Object::message("summary")
            .boolean("dry_run", args.dry_run)
            .integer("rewritten", made)
            .integer("unchanged", meant.len() as u64 - made)
            .integer("forgotten", if args.forget { made } else { 0 }),
    )?;
    let would = if args.dry_run { "would be " } else { "" };
    console.line(format!("{} {would}rewritten", count(made, "snapshot")))?;
    if made > 0 && !args.forget && !args.dry_run {
        console.note(
            "the old snapshots are still there; `quintet forget` removes them, or --forget next time",
        );
    }
    Ok(Exit::Done)
}

/// Refuses a snapshot that cannot be rewritten in this way.
fn refuse(snapshot: &Snapshot, excludes: &Patterns) -> anyhow::Result<()> {
    let id = short_id(snapshot);
    match snapshot.kind {
        SnapshotKind::Volume => bail!(
            "snapshot {id} is a state of a volume, and its name leads to this state only; it \
             cannot be rewritten"
        ),
        SnapshotKind::Image | SnapshotKind::Stream if !excludes.is_empty() => bail!(
            "snapshot {id} is of {}, which has no files to exclude; use --host or --time alone",
            listing::subject(snapshot)
        ),
        _ => Ok(()),
    }
}

/// Makes one snapshot. Returns false if it would be the same.
fn one(
    invocation: &Invocation,
    pool: &Pool,
    args: &RewriteArgs,
    excludes: &Patterns,
    (old, all): (&Snapshot, &[Snapshot]),
) -> anyhow::Result<bool> {
    let id = short_id(old);
    let mut session = match args.dry_run {
        true => None,
        false => Some(pool.begin(LaneOptions::metadata())?),
    };
    let mut new = Snapshot {
        host: args.host.clone().unwrap_or_else(|| old.host.clone()),
        taken: match &args.time {
            Some(_) => invocation.time(args.time.as_deref(), pool)?,
            None => behind(all, old),
        },
        program: program(),
        original: match old.original == SnapshotId::default() {
            true => old.id,
            false => old.original,
        },
        added_bytes: 0,
        ..old.clone()
    };
    if !excludes.is_empty() {
        let store = &mut |bytes: &[u8]| match &mut session {
            Some(session) => session.main().store_object(bytes, true),
            None => Ok(ObjectRoot::EMPTY),
        };
        let made = tree(invocation, pool, args, excludes, old, store);
        let is_same = |outcome: &RewriteOutcome| {
            outcome.left_out == 0 && args.host.is_none() && args.time.is_none()
        };
        let outcome = match made {
            Ok(outcome) if !is_same(&outcome) => outcome,
            made => {
                if let Some(session) = session {
                    unfinished::end(invocation, session);
                }
                made?;
                let console = &invocation.console;
                console.line(format!("{id}: nothing matches, no new snapshot"))?;
                return Ok(false);
            }
        };
        new.root = outcome.root;
        new.files = outcome.files;
        new.directories = outcome.directories;
        new.logical_bytes = outcome.bytes;
    }
    if let Some(mut session) = session {
        new.id = pool.new_snapshot_id();
        let commit = || -> store::Result<()> {
            new.added_bytes = session.seal_data()?.stored_bytes;
            pool.commit(session, std::slice::from_ref(&new), &[])?;
            Ok(())
        };
        commit().map_err(|e| full::explained(pool, e.into()))?;
        if args.forget {
            pool.forget(std::slice::from_ref(old)).with_context(|| {
                format!(
                    "snapshot {} is made, but {id} is not forgotten",
                    short_id(&new)
                )
            })?;
        }
    }
    show(invocation, args, old, &new)?;
    Ok(true)
}

/// Returns the first free time behind a snapshot, so that `latest` means the new one.
fn behind(all: &[Snapshot], old: &Snapshot) -> UnixNanos {
    let mut time = UnixNanos(old.taken.0.saturating_add(1));
    while all.iter().any(|s| s.taken == time) && time.0 < i64::MAX {
        time.0 += 1;
    }
    time
}

/// Makes the tree of a snapshot again.
fn tree(
    invocation: &Invocation,
    pool: &Pool,
    args: &RewriteArgs,
    excludes: &Patterns,
    old: &Snapshot,
    store: &mut dyn FnMut(&[u8]) -> store::Result<ObjectRoot>,
) -> anyhow::Result<RewriteOutcome> {
    let console = &invocation.console;
    let shows = args.dry_run || console.loudness().verbose > 0;
    let mut left_out = |path: &[u8], entry: &Entry| {
        if shows {
            let mut line = b"leave out ".to_vec();
            line.extend(console.name(path));
            if matches!(entry.kind, EntryKind::Directory { .. }) {
                line.push(b'/');
            }
            // A closed output ends the run at its summary.
            let _ = console.line(line);
            let object = Object::message("left_out").text("snapshot", &old.id.to_string());
            let _ = console.message(listing::node(object, path, entry, &old.owners));
        }
    };
    let mut plan = RewritePlan {
        root: old.root,
        excludes,
        left_out: &mut left_out,
    };
    let progress = invocation.progress("rewriting");
    let made = rewrite_tree(pool.reader(), &mut plan, &progress, store);
    drop(progress);
    made.map_err(|RewriteError { path, error }| {
        if !error.is_corruption() {
            return full::explained(pool, anyhow!(*error));
        }
        let path = match path.is_empty() {
            true => "/".to_owned(),
            false => printable(&path),
        };
        anyhow!(*error).context(format!(
            "cannot rewrite snapshot {}: its directory {path} is damaged; exclude it too, or repair \
             the pool first (quintet repair --replica POOL)",
            short_id(old)
        ))
    })
}

fn show(
    invocation: &Invocation,
    args: &RewriteArgs,
    old: &Snapshot,
    new: &Snapshot,
) -> std::io::Result<()> {
    let console = &invocation.console;
    let object = Object::message("rewritten")
        .boolean("dry_run", args.dry_run)
        .text("from", &old.id.to_string())
        .boolean("forgotten", args.forget && !args.dry_run);
    let size = |s: &Snapshot| {
        let bytes = sizes::display(s.logical_bytes);
        format!("{}, {bytes}", count(s.files, "file"))
    };
    let from = format!("{} ({})", short_id(old), size(old));
    match args.dry_run {
        true => {
            console.message(listing::snapshot(object, old))?;
            console.line(format!("would rewrite {from} to {}", size(new)))
        }
        false => {
            console.message(listing::snapshot(object, new))?;
            console.line(format!(
                "rewrote {from} to {} ({})",
                short_id(new),
                size(new)
            ))
        }
    }
}
