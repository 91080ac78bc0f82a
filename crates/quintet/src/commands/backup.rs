//! `backup`: stores file trees, or a stream from standard input or a command. [`super::run`] calls
//! this.
//!
//! Invariant: a failed backup commits nothing; chunks that it stored are found again by the next
//! one. The pool itself is left out, because it would grow while it is read.

mod stream;

use super::full;
use super::invocation::{Invocation, done_or_partly};
use super::known_snapshots::KnownSnapshots;
use super::new_snapshot::{Identity, commit, is_the_same, skip, summary};
use super::selected;
use super::source_paths;
use super::unfinished;
use crate::progress::ArchiveProgress;
use anyhow::{Context, bail};
use archive::backup::{
    FrozenOutcome, Order, Pacer, TreeOutcome, TreePlan, back_up_trees, count_trees, scan_trees,
};
use archive::filesystem::capture::Sameness;
use archive::filesystem::in_memory::MemoryOutcome;
use archive::owners::OwnerIds;
use archive::selection::{BackupSelection, Marker, OwnPlaces};
use browsing::choice::{SnapshotFilter, choose};
use command_line::{BackupArgs, ReadOrder};
use format::recipe::ObjectRoot;
use format::snapshot::{OwnerNames, Snapshot, SnapshotKind};
use host_tools::{Background, idle_priority};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use store::{OpenMode, Pool, StoreError, WriteSession};
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::sizes;
use units::count;

/// Raw size of a region, bytes. Larger regions compress better, smaller ones are faster for random
/// reads (see `docs/decisions/`, regions).
pub(super) const REGION_BYTES: usize = 1536 << 10;

/// Runs the command.
pub(super) fn run(invocation: &Invocation, args: &BackupArgs) -> anyhow::Result<Exit> {
    if args.stdin || args.stdin_from_command {
        return stream::run(invocation, args);
    }
    let started = Instant::now();
    let paths = source_paths::collect(&invocation.context, args)?;
    if let Some(reported) = source_paths::links_warning(&paths) {
        invocation.console.warn(reported);
    }
    let selection = selection(invocation, args, &paths)?;
    let region_bytes = args.region_size.unwrap_or(REGION_BYTES);
    let lane = invocation.lane(args.compression.as_deref(), region_bytes)?;
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
    let is_wanted = !args.force || args.skip_if_unchanged;
    let before = is_wanted
        .then(|| find_parent(invocation, &pool, args, &identity, &stored_paths))
        .transpose()?
        .flatten();
    let parent = before.as_ref().filter(|_| !args.force);
    let sameness = Sameness {
        inode: !args.ignore_inode,
        changed: !(args.ignore_inode || args.ignore_ctime),
    };
    let progress = invocation.progress("backing up").limited(args.limit);
    if args.dry_run {
        return dry_run(
            invocation,
            &pool,
            &paths,
            &selection,
            (parent.map(|p| p.root), sameness),
            &progress,
        );
    }
    let background = args.background.then(|| Background::new(invocation));
    let _priority = background
        .as_ref()
        .map(|_| idle_priority(invocation, "the backup"));
    let mut session = pool.begin(lane)?;
    let plan = TreePlan {
        paths: &paths,
        selection: &selection,
        parent: parent.map(|p| p.root),
        sameness,
        workers: args
            .read_concurrency
            .map_or_else(|| invocation.workers(), usize::from),
        lane,
        order: match args.order {
            Some(ReadOrder::Tree) => Order::Tree,
            Some(ReadOrder::Cached) | None => Order::Cached,
        },
        pacer: background.as_ref().map(|pacer| pacer as &dyn Pacer),
        snapshot: args.snapshot,
    };
    let (root, outcome, owners) = match store_trees(&pool, &mut session, &plan, &progress) {
        Ok(stored) => stored,
        Err(e) => {
            unfinished::end(invocation, session);
            return Err(full::explained(&pool, e.into()));
        }
    };
    let mut snapshot = identity.snapshot(&pool, SnapshotKind::Tree, root);
    snapshot.paths = stored_paths;
    snapshot.files = outcome.files;
    snapshot.directories = outcome.directories;
    snapshot.logical_bytes = outcome.bytes;
    snapshot.parent = parent.map(|p| p.id).unwrap_or_default();
    snapshot.missed = outcome.missed();
    snapshot.owners = owner_names(invocation, &owners);
    if let Some(before) = before.as_ref().filter(|_| args.skip_if_unchanged)
        && is_the_same(&pool, before, &snapshot)
    {
        drop(progress);
        return skip(invocation, session, before, (&outcome, started));
    }
    let (snapshot, counts) = commit(&invocation.console, &pool, session, snapshot, started)?;
    drop(progress);
    summary(&invocation.console, &snapshot, &outcome, &counts)?;
    say_order(invocation, args, &outcome.memory);
    say_frozen(invocation, &outcome.frozen);
    if let Some(background) = background {
        let waited = background.waited().as_secs_f64();
        let waited = format_args!("waited {waited:.2} s for an idle disk");
        invocation.console.detail(waited);
    }
    Ok(done_or_partly(
        outcome.failures + outcome.changed_while_read,
    ))
}

/// Backs up the trees, and counts them ahead of the backup if the progress is shown.
fn store_trees(
    pool: &Pool,
    session: &mut WriteSession,
    plan: &TreePlan<'_>,
    progress: &ArchiveProgress,
) -> Result<(ObjectRoot, TreeOutcome, OwnerIds), StoreError> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        if progress.is_shown() {
            scope.spawn(|| scan_trees(plan.paths, plan.selection, progress, &done));
        }
        let stored = back_up_trees(pool, session, plan, progress);
        done.store(true, Ordering::Relaxed);
        stored
    })
}

/// Says what was in memory, and why files were not read in the order that the user asked for. By
/// default this is no news.
fn say_order(invocation: &Invocation, args: &BackupArgs, memory: &MemoryOutcome) {
    invocation.console.detail(format_args!(
        "found {} in memory, dropped {} that this backup read; {} read before their place",
        sizes::display(memory.bytes_found),
        sizes::display(memory.bytes_dropped),
        count(memory.files_ahead, "file"),
    ));
    if args.order != Some(ReadOrder::Cached) {
        return;
    }
    if let Some(why) = memory.unknown {
        invocation.console.note(format_args!(
            "{} read in the order of the tree, because the system does not say what is in memory: {why}",
            count(memory.files_unknown, "file"),
        ));
    }
}

/// Says how many files could not be read from a snapshot of the source.
fn say_frozen(invocation: &Invocation, frozen: &FrozenOutcome) {
    if let Some(why) = frozen.why {
        invocation.console.warn(format_args!(
            "{} read as they were at that moment, not from a snapshot of the source: {why}",
            count(frozen.not_frozen, "file"),
        ));
    }
}

/// Returns the names of the owners of all files, and says how many names the table has no room for.
fn owner_names(invocation: &Invocation, owners: &OwnerIds) -> OwnerNames {
    let (names, left_out) = owners.names();
    if left_out > 0 {
        invocation.console.note(format_args!(
            "{} of users and groups are not in the snapshot, which has room for 16 KiB of names; \
             a restore uses the numbers of these",
            count(left_out, "name"),
        ));
    }
    names
}

/// Returns the selection: the user's patterns, and the exclusion of the pool itself.
fn selection(
    invocation: &Invocation,
    args: &BackupArgs,
    paths: &[PathBuf],
) -> anyhow::Result<BackupSelection> {
    let excludes = selected::excludes(&invocation.context, &args.excludes)?;
    let own = own_places(invocation, paths)?;
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
        own,
        one_file_system: args.one_file_system,
        larger_than: args.exclude_larger_than,
    })
}

/// Returns what is left out of these paths because it is this program's, and says so. Refuses paths
/// inside of it.
fn own_places(invocation: &Invocation, paths: &[PathBuf]) -> anyhow::Result<OwnPlaces> {
    let pool = invocation.settings.pool()?;
    let own = OwnPlaces::now(pool).context("cannot read the table of mounts")?;
    let pool = pool.canonicalize().ok();
    for path in paths {
        // A path that is not there is reported by the walk.
        let path = path.canonicalize().unwrap_or_else(|_| path.clone());
        if let Some(point) = own.mount_of(&path) {
            bail!(
                "{} is in a mount of this program ({}): what it shows is stored already; \
                 keep the state of a volume with `quintet volume snapshot`, and copy snapshots to \
                 another pool with `quintet copy`",
                path.display(),
                point.display()
            );
        }
        if let Some(pool) = pool.as_ref().filter(|pool| path.starts_with(pool)) {
            bail!(
                "{} is the pool itself, which cannot be stored in itself; \
                 `quintet copy` sends its snapshots to another pool",
                pool.display()
            );
        }
        if let Some(pool) = pool.as_ref().filter(|pool| pool.starts_with(&path)) {
            let pool = pool.display();
            let note = format_args!("the pool itself is not backed up: {pool}");
            invocation.console.note(note);
        }
        for point in own.mounts_below(&path) {
            let point = point.display();
            let note = format_args!("this program's mount is not backed up: {point}");
            invocation.console.note(note);
        }
    }
    Ok(own)
}

/// Returns the parent: the newest tree of this host and these paths, unless the user named another.
fn find_parent(
    invocation: &Invocation,
    pool: &Pool,
    args: &BackupArgs,
    identity: &Identity,
    paths: &[Vec<u8>],
) -> anyhow::Result<Option<Snapshot>> {
    let snapshots = KnownSnapshots::of(invocation, pool)?;
    if let Some(wanted) = &args.parent {
        let chosen = choose(&snapshots, wanted, &SnapshotFilter::default());
        return Ok(Some(snapshots.found(chosen)?.clone()));
    }
    let is_before =
        |s: &&Snapshot| s.kind == SnapshotKind::Tree && s.host == identity.host && s.paths == paths;
    Ok(snapshots.iter().rfind(is_before).cloned())
}

fn dry_run(
    invocation: &Invocation,
    pool: &Pool,
    paths: &[PathBuf],
    selection: &BackupSelection,
    before: (Option<ObjectRoot>, Sameness),
    progress: &ArchiveProgress,
) -> anyhow::Result<Exit> {
    let outcome = count_trees(pool, paths, selection, before, progress)?;
    invocation.console.line(format!(
        "would back up {} in {}, {}: {} unchanged, {} to read",
        count(outcome.files, "file"),
        count(outcome.directories, "directory"),
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
    Ok(done_or_partly(outcome.failures))
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
