//! `restore`: a snapshot, or a part of it, into a directory.

use super::invocation::Invocation;
use super::known_snapshots::KnownSnapshots;
use super::listing;
use super::snapshot_choice::{SnapshotFilter, choose, short_id, split_path};
use super::tree::{Found, lookup, normal, top};
use crate::cli::{OverwriteArg, RestoreArgs};
use crate::exit::Exit;
use crate::filesystem::overwrite::{Overwrite, Placement};
use crate::json::Object;
use crate::restore::{RestorePlan, restore_tree, verify_tree};
use crate::selection::{Patterns, SnapshotSelection};
use crate::sizes;
use anyhow::{Context, bail};
use format::snapshot::SnapshotKind;
use format::tree::EntryKind;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use store::OpenMode;

/// Runs the command.
pub(super) fn run(invocation: &Invocation, args: &RestoreArgs) -> anyhow::Result<Exit> {
    let (wanted, path) = split_path(&args.snapshot)?;
    let selection = SnapshotSelection {
        includes: patterns(&args.include, &args.include_file)?,
        excludes: patterns(&args.exclude, &args.exclude_file)?,
    };
    let pool = invocation.open(OpenMode::Read)?;
    let snapshots = KnownSnapshots::of(invocation, &pool)?;
    let filter = SnapshotFilter::new(&args.filter)?;
    let chosen = choose(&snapshots, &wanted, Some(SnapshotKind::Tree), &filter);
    let snapshot = snapshots.found(chosen)?;
    if let Some(incomplete) = listing::incomplete(snapshot) {
        let id = short_id(snapshot);
        invocation.console.warn(format_args!(
            "snapshot {id} is {incomplete} when it was made"
        ));
    }
    let progress = invocation.progress("restoring");
    let path = normal(&path.unwrap_or_default());
    let (root, root_entry) = match lookup(pool.reader(), top(snapshot)?, &path)? {
        Found::Top(root) => (root, None),
        Found::Entry(entry) => match entry.kind {
            EntryKind::Directory { content } => (content, Some(*entry)),
            _ => {
                let path = String::from_utf8_lossy(&path);
                bail!("{path} is not a directory: restore it with --include {path}");
            }
        },
    };
    let plan = RestorePlan {
        root,
        root_entry,
        target: &args.target,
        selection: &selection,
        delete: args.delete,
        overwrite: match args.overwrite {
            OverwriteArg::Always => Overwrite::Always,
            OverwriteArg::IfChanged => Overwrite::IfChanged,
            OverwriteArg::IfNewer => Overwrite::IfNewer,
            OverwriteArg::Never => Overwrite::Never,
        },
        placement: if args.in_place {
            Placement::Rewrite
        } else {
            Placement::Replace
        },
        all_sparse: args.sparse,
        workers: invocation.workers(),
        dry_run: args.dry_run,
    };
    let outcome = restore_tree(pool.reader(), &plan, &progress)?;
    let mut different = 0;
    if args.verify && !args.dry_run {
        different = verify_tree(pool.reader(), &root, &args.target, &selection, &progress)?;
    }
    let seconds = progress.elapsed().as_secs_f64();
    drop(progress);
    let console = &invocation.console;
    let verb = if args.dry_run {
        "would restore"
    } else {
        "restored"
    };
    console.line(format!(
        "{verb} {} files and {} directories, {}, in {seconds:.2} s{}",
        outcome.files - outcome.skipped,
        outcome.directories,
        sizes::display(outcome.bytes),
        if args.verify && !args.dry_run {
            ", verified"
        } else {
            ""
        },
    ))?;
    let troubles = [
        (outcome.skipped, "left alone because they are there"),
        (outcome.deleted, "removed"),
        (outcome.damaged, "NOT restored: damaged in the pool"),
        (different, "differ from the snapshot"),
        (outcome.warnings, "warnings"),
    ];
    for (count, what) in troubles.into_iter().filter(|(count, _)| *count > 0) {
        console.line(format!("{count} {what}"))?;
    }
    console.message(
        Object::message("summary")
            .text("snapshot_id", &snapshot.id.to_string())
            .boolean("dry_run", args.dry_run)
            .integer("total_files", outcome.files)
            .integer("directories", outcome.directories)
            .integer("total_bytes", outcome.bytes)
            .integer("files_skipped", outcome.skipped)
            .integer("files_deleted", outcome.deleted)
            .integer("files_damaged", outcome.damaged)
            .integer("files_different", different)
            .integer("warnings", outcome.warnings)
            .number("total_duration", seconds),
    )?;
    let exit = match outcome {
        _ if outcome.damaged > 0 => Exit::Damaged,
        _ if outcome.warnings > 0 || different > 0 => Exit::Partly,
        _ => Exit::Done,
    };
    Ok(snapshots.exit_of(&wanted, exit))
}

fn patterns(given: &[OsString], files: &[PathBuf]) -> anyhow::Result<Patterns> {
    let mut patterns = Patterns::default();
    for pattern in given {
        patterns.add(pattern.as_bytes(), false)?;
    }
    for file in files {
        let lines = std::fs::read(file).with_context(|| file.display().to_string())?;
        patterns.add_lines(&lines, false)?;
    }
    Ok(patterns)
}
