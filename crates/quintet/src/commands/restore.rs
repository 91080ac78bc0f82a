//! `restore`: restores a snapshot, or a part of it, into a directory. [`super::run`] calls this.
//!
//! Invariant: a user at a terminal is asked before existing names are replaced or removed, unless
//! flags say what to do.

use super::confirm::{can_ask, is_wanted};
use super::invocation::Invocation;
use super::known_snapshots::KnownSnapshots;
use super::selected;
use crate::progress::{ArchiveProgress, list};
use anyhow::{Context, anyhow, bail};
use archive::filesystem::apply::TargetDirectory;
use archive::filesystem::metadata::Privileges;
use archive::filesystem::overwrite::{Overwrite, Placement};
use archive::owners::OwnerMap;
use archive::restore::{Action, RestoreOutcome, RestorePlan, Verified, restore_tree, verify_tree};
use archive::selection::{Patterns, SnapshotSelection};
use browsing::choice::{SnapshotFilter, choose_named, split_path};
use browsing::listing;
use browsing::tree::{TreePath, lookup, nearest, normal, top, with_nearest};
use command_line::{IncludeArgs, OverwriteArg, RestoreArgs};
use format::recipe::ObjectRoot;
use format::snapshot::SnapshotKind;
use format::tree::{Entry, EntryKind};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use store::Reader;
use terminal::console::{Console, printable};
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::names::short_id;
use terminal::sizes;
use units::count;

/// Maximum number of names that are shown with the question.
const SHOWN_MAX: usize = 20;

/// Runs the command.
pub(super) fn run(invocation: &Invocation, args: &RestoreArgs) -> anyhow::Result<Exit> {
    let (wanted, path) = split_path(&args.snapshot)?;
    let context = &invocation.context;
    let selection = SnapshotSelection {
        includes: selected::includes(context, &args.includes)?,
        excludes: selected::excludes(context, &args.excludes)?,
    };
    invocation.read_limit.set(args.limit, &invocation.interrupt);
    let pool = invocation.open_with_tier()?;
    let snapshots = KnownSnapshots::of(invocation, &pool)?;
    let filter = SnapshotFilter::new(&args.filter)?;
    let named = (wanted.as_str(), path.as_deref());
    let snapshot = snapshots
        .at_path(invocation, pool.reader(), named, &filter)
        .map_err(|e| of_no_tree(&snapshots, &args.snapshot).unwrap_or(e))?;
    if let Some(incomplete) = listing::incomplete(snapshot) {
        let id = short_id(snapshot);
        invocation.console.warn(format_args!(
            "snapshot {id} is {incomplete} during its backup"
        ));
    }
    let mut selection = selection;
    let path = normal(&path.unwrap_or_default());
    let (path, root, root_entry) =
        part_of(args, pool.reader(), top(snapshot)?, path, &mut selection)?;
    let owners = match args.numeric_ids || args.no_owner {
        true => OwnerMap::default(),
        false => OwnerMap::of(&snapshot.owners),
    };
    let given = given_below(&snapshot.paths, &path);
    let privileges = Privileges {
        owner: !args.no_owner,
        set_id: !args.no_setuid,
        xattrs: !args.no_xattrs,
        ..Privileges::of_process()
    };
    let plan = RestorePlan {
        root,
        root_entry,
        top: None,
        target: &args.target,
        given: &given,
        selection: &selection,
        delete: args.delete,
        overwrite: overwrite(args.overwrite),
        placement: if args.in_place {
            Placement::Rewrite
        } else {
            Placement::Replace
        },
        all_sparse: args.sparse,
        partial: args.partial,
        privileges,
        owners: &owners,
        devices: !args.no_devices,
        workers: invocation.workers(),
        dry_run: args.dry_run,
        tell: &|action, path| tell(invocation, args.dry_run, action, path),
    };
    if !args.dry_run && !args.yes && args.overwrite.is_none() && can_ask(&invocation.context) {
        ask(invocation, pool.reader(), &plan)?;
    }
    let progress = invocation.progress("restoring");
    if path == b"/" && selection.is_all() {
        // Of a part, the total is known when the tree was walked.
        archive::Observer::expect(&progress, snapshot.files, snapshot.logical_bytes);
    }
    let is_new = args.target.symlink_metadata().is_err();
    let top = match args.dry_run {
        true => TargetDirectory::open_top(&args.target)?,
        false => Some(TargetDirectory::create_top(&args.target)?),
    };
    let plan = RestorePlan {
        top: top.clone(),
        ..plan
    };
    let outcome = restore_tree(pool.reader(), &plan, &progress)?;
    if outcome.selected == 0 && !selection.includes.is_empty() {
        drop(progress);
        if is_new {
            // One with names in it stays.
            let _ = std::fs::remove_dir(&args.target);
        }
        bail!(nothing_matches(pool.reader(), root, &path, &args.includes));
    }
    let mut verified = None;
    if let Some(top) = top.filter(|_| args.verify && !args.dry_run) {
        verified = Some(verify_tree(pool.reader(), &top, &plan, &progress)?);
    }
    let seconds = progress.elapsed().as_secs_f64();
    drop(progress);
    report(invocation, args.dry_run, &outcome, verified, seconds)?;
    if outcome.stopped_full {
        say_full(invocation, &args.target, &outcome);
    }
    let id = snapshot.id.to_string();
    let verified = verified.unwrap_or_default();
    let message = summary(&id, args.dry_run, &outcome, verified, seconds);
    invocation.console.message(message)?;
    Ok(snapshots.exit_of(&wanted, exit(&outcome, verified)))
}

/// Finds the directory to restore: its path, its contents, and its entry unless it is the top. For
/// a file that is the directory with the file, of which `selection` then has only this name.
fn part_of(
    args: &RestoreArgs,
    reader: &Reader,
    top: ObjectRoot,
    mut path: Vec<u8>,
    selection: &mut SnapshotSelection,
) -> anyhow::Result<(Vec<u8>, ObjectRoot, Option<Entry>)> {
    let entry = match lookup(reader, top, &path)? {
        TreePath::Top(root) => return Ok((path, root, None)),
        TreePath::Entry(entry) => *entry,
    };
    if let EntryKind::Directory { content } = entry.kind {
        return Ok((path, content, Some(entry)));
    }
    expect_one(args, &path)?;
    path.truncate(path.len() - entry.name.len());
    let path = normal(&path);
    selection.includes = only(&entry.name)?;
    let above = lookup(reader, top, &path)?.directory();
    let root = above.context("the directory of the file is missing")?;
    Ok((path, root, None))
}

/// Returns the exit code. `verified` is empty unless something differs.
fn exit(outcome: &RestoreOutcome, verified: Verified) -> Exit {
    match outcome {
        _ if outcome.damaged > 0 || outcome.partial > 0 => Exit::Damaged,
        _ if outcome.failed > 0 || outcome.warnings > 0 => Exit::Partly,
        _ if verified != Verified::default() => Exit::Partly,
        _ => Exit::Done,
    }
}

/// Refuses flags that choose among several files.
fn expect_one(args: &RestoreArgs, path: &[u8]) -> anyhow::Result<()> {
    let (includes, excludes) = (&args.includes, &args.excludes);
    let chooses = [
        ("--include", !includes.include.is_empty()),
        ("--iinclude", !includes.iinclude.is_empty()),
        ("--include-file", !includes.include_file.is_empty()),
        ("--iinclude-file", !includes.iinclude_file.is_empty()),
        ("--exclude", !excludes.exclude.is_empty()),
        ("--iexclude", !excludes.iexclude.is_empty()),
        ("--exclude-file", !excludes.exclude_file.is_empty()),
        ("--iexclude-file", !excludes.iexclude_file.is_empty()),
        ("--delete", args.delete),
    ];
    match chooses.iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => bail!("{} is one file; remove {flag}", printable(path)),
        None => Ok(()),
    }
}

/// Returns the pattern of this name at the top.
fn only(name: &[u8]) -> anyhow::Result<Patterns> {
    let mut pattern = b"/".to_vec();
    for byte in name {
        match byte {
            // A pattern has one line.
            b'\n' => pattern.push(b'?'),
            b'*' | b'?' | b'[' | b'\\' => pattern.extend([b'\\', *byte]),
            byte => pattern.push(*byte),
        }
    }
    let mut patterns = Patterns::default();
    patterns.add(&pattern, false)?;
    Ok(patterns)
}

/// Returns an error with the right command if the user named an image, a stream or a volume.
fn of_no_tree(snapshots: &KnownSnapshots, name: &OsStr) -> Option<anyhow::Error> {
    let name = name.to_str()?;
    let (what, how) = if snapshots.is_volume(name) {
        ("a volume", format!("quintet export {name} FILE"))
    } else {
        let found = choose_named(snapshots, name, &SnapshotFilter::default());
        match found.ok()?.kind {
            SnapshotKind::Tree => return None,
            SnapshotKind::Image => ("an image", format!("quintet export {name} FILE")),
            SnapshotKind::Volume => ("a state of a volume", format!("quintet export {name} FILE")),
            SnapshotKind::Stream => ("a stream", format!("quintet dump {name} --target FILE")),
        }
    };
    Some(anyhow!("{name} is {what} and no tree of files; use {how}"))
}

/// Returns the paths of a backup as they are below `top`, a directory of its snapshot.
fn given_below(paths: &[Vec<u8>], top: &[u8]) -> Vec<Vec<u8>> {
    let top = top.strip_suffix(b"/").unwrap_or(top);
    let below = paths.iter().filter_map(|path| path.strip_prefix(top));
    let below = below.filter(|below| below.first() == Some(&b'/'));
    below.map(<[u8]>::to_vec).collect()
}

fn overwrite(given: Option<OverwriteArg>) -> Overwrite {
    match given {
        None | Some(OverwriteArg::Always) => Overwrite::Always,
        Some(OverwriteArg::IfChanged) => Overwrite::IfChanged,
        Some(OverwriteArg::IfNewer) => Overwrite::IfNewer,
        Some(OverwriteArg::Never) => Overwrite::Never,
    }
}

/// Shows which names would be replaced or removed, if any. Fails if the user does not want that.
fn ask(invocation: &Invocation, reader: &Reader, plan: &RestorePlan<'_>) -> anyhow::Result<()> {
    let shown = RefCell::new(Vec::new());
    let list = |action, path: &Path| {
        let mut shown = shown.borrow_mut();
        if matches!(action, Action::Replace | Action::Remove) && shown.len() < SHOWN_MAX {
            shown.push((action, path.to_owned()));
        }
    };
    let trial = RestorePlan {
        root_entry: plan.root_entry.clone(),
        top: TargetDirectory::open_top(plan.target)?,
        dry_run: true,
        tell: &list,
        ..*plan
    };
    // The trial prints no errors: the restore itself will.
    let (silent, _, _) = Console::captured(invocation.console.loudness());
    let progress = ArchiveProgress::start(&silent, &invocation.interrupt, "looking", None);
    let outcome = restore_tree(reader, &trial, &progress)?;
    drop(progress);
    let RestoreOutcome {
        replaced, deleted, ..
    } = outcome;
    if replaced + deleted == 0 {
        return Ok(());
    }
    let mut question = String::new();
    let shown = shown.into_inner();
    for (action, path) in &shown {
        let path = printable(path.as_os_str().as_bytes());
        question.push_str(&format!("{} {path}\n", action.name()));
    }
    let more = (replaced + deleted).saturating_sub(shown.len() as u64);
    if more > 0 {
        question.push_str(&format!("... and {more} more (see --dry-run)\n"));
    }
    question.push_str(&format!(
        "Replace {} and remove {} in {}?",
        count(replaced, "name"),
        count(deleted, "name"),
        printable(plan.target.as_os_str().as_bytes())
    ));
    match is_wanted(&invocation.context, &question)? {
        true => Ok(()),
        false => bail!(
            "nothing was restored; choose with --overwrite what is replaced, or give another --target"
        ),
    }
}

/// Prints a line about one name. A dry run prints everything that is replaced, removed or kept.
/// `-v` prints what is written or removed, `-vv` all names.
fn tell(invocation: &Invocation, dry_run: bool, action: Action, path: &Path) {
    let console = &invocation.console;
    let is_loss = matches!(
        action,
        Action::Replace | Action::Remove | Action::Leave | Action::Refuse(_)
    );
    let is_kept = matches!(action, Action::Leave | Action::Enter | Action::Follow);
    let least = if is_kept { 2 } else { 1 };
    let shows = dry_run && is_loss || console.loudness().verbose >= least;
    let bytes = path.as_os_str().as_bytes();
    if shows {
        list(console, action.name(), path);
    }
    match action {
        Action::Skip => console.note(format_args!("{}: a device, left out", printable(bytes))),
        Action::Follow => console.note(format_args!(
            "{} stays a link: what it leads to is restored",
            printable(bytes)
        )),
        _ => {}
    }
}

fn report(
    invocation: &Invocation,
    dry_run: bool,
    outcome: &RestoreOutcome,
    verified: Option<Verified>,
    seconds: f64,
) -> std::io::Result<()> {
    let console = &invocation.console;
    let verb = if dry_run { "would restore" } else { "restored" };
    let Verified { different, unread } = verified.unwrap_or_default();
    let verified = verified.map_or("", |_| ", verified");
    console.line(format!(
        "{verb} {} and {}, {}, in {seconds:.2} s{verified}",
        count(outcome.files, "file"),
        count(outcome.directories, "directory"),
        sizes::display(outcome.bytes),
    ))?;
    let removed = if dry_run {
        "would be removed"
    } else {
        "removed"
    };
    let replaced = match dry_run {
        true => "of them would replace existing files",
        false => "of them replaced existing files",
    };
    let counts = [
        (outcome.replaced, replaced),
        (outcome.skipped, "left unchanged because they exist"),
        (outcome.deleted, removed),
        (
            outcome.partial,
            "of them restored IN PART: they are damaged in the pool",
        ),
        (
            outcome.damaged,
            "NOT restored: they are damaged in the pool",
        ),
        (outcome.failed, "NOT restored or removed: see the warnings"),
        (different, "differ from the snapshot"),
        (
            unread,
            "could not be verified: they are not there or cannot be read",
        ),
    ];
    for (number, what) in counts.into_iter().filter(|(number, _)| *number > 0) {
        console.line(format!("{number} {what}"))?;
    }
    for (number, one, rest) in [
        (outcome.devices_skipped, "device", " left out"),
        (outcome.warnings, "warning", ""),
    ] {
        if number > 0 {
            console.line(format!("{}{rest}", count(number, one)))?;
        }
    }
    Ok(())
}

/// Says how much space the target lacks.
fn say_full(invocation: &Invocation, target: &Path, outcome: &RestoreOutcome) {
    let free = rustix::fs::statvfs(target);
    let free = free.map_or(0, |found| found.f_bavail.saturating_mul(found.f_frsize));
    invocation.console.warn(format_args!(
        "stopped, because the target is full: {} are missing with {}, and {} are free in {}. Make \
         space and restore again, with --overwrite if-changed to keep what is there",
        count(outcome.failed, "name"),
        sizes::display(outcome.bytes_failed),
        sizes::display(free),
        printable(target.as_os_str().as_bytes()),
    ));
}

/// Returns why a restore with these patterns would restore nothing, with the nearest names.
fn nothing_matches(
    reader: &Reader,
    root: ObjectRoot,
    top: &[u8],
    includes: &IncludeArgs,
) -> String {
    let mut why = "nothing in the snapshot matches".to_owned();
    let mut near = BTreeSet::new();
    let given = includes.include.iter().map(|given| ("--include", given));
    let given = given.chain(includes.iinclude.iter().map(|given| ("--iinclude", given)));
    if given.clone().next().is_none() {
        why.push_str(" --include-file");
    }
    for (option, include) in given {
        let include = include.as_bytes();
        why.push_str(&format!(" {option} {}", printable(include)));
        let below = include.strip_prefix(top).filter(|_| top != b"/");
        near.extend(nearest(reader, root, below.unwrap_or(include)));
    }
    if top != b"/" {
        let top = printable(top);
        why.push_str(&format!("; patterns begin below {top}, which is restored"));
    }
    with_nearest(why, near.into_iter().collect())
}

fn summary(
    id: &str,
    dry_run: bool,
    outcome: &RestoreOutcome,
    verified: Verified,
    seconds: f64,
) -> Object {
    Object::message("summary")
        .text("snapshot_id", id)
        .boolean("dry_run", dry_run)
        .integer("total_files", outcome.files_meant)
        .integer("directories", outcome.directories)
        .integer("total_bytes", outcome.bytes_meant)
        .integer("files_restored", outcome.files)
        .integer("bytes_restored", outcome.bytes)
        .integer("files_replaced", outcome.replaced)
        .integer("files_skipped", outcome.skipped)
        .integer("devices_skipped", outcome.devices_skipped)
        .integer("files_deleted", outcome.deleted)
        .integer("files_partial", outcome.partial)
        .integer("files_damaged", outcome.damaged)
        .integer("files_failed", outcome.failed)
        .integer("bytes_failed", outcome.bytes_failed)
        .boolean("target_full", outcome.stopped_full)
        .integer("links_copied", outcome.links_copied)
        .integer("files_different", verified.different)
        .integer("files_unverified", verified.unread)
        .integer("warnings", outcome.warnings)
        .number("total_duration", seconds)
}
