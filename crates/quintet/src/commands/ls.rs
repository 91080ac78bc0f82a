//! `ls`: lists files of a snapshot. [`super::run`] calls this.
//!
//! Invariant: it reads no file contents.

use super::invocation::Invocation;
use super::known_snapshots::KnownSnapshots;
use super::selected::{self, Walked};
use anyhow::bail;
use archive::selection::SnapshotSelection;
use browsing::choice::{SnapshotFilter, split_path};
use browsing::listing;
use browsing::tree::{TreePath, WalkOn, lookup, normal, top, walk};
use command_line::LsArgs;
use format::tree::{Entry, EntryKind};
use std::os::unix::ffi::OsStrExt;
use store::OpenMode;
use terminal::exit::Exit;
use terminal::json::Object;

pub(super) fn run(invocation: &Invocation, args: &LsArgs) -> anyhow::Result<Exit> {
    let (name, base) = split_path(&args.snapshot)?;
    let selection = SnapshotSelection {
        includes: selected::includes(&invocation.context, &args.includes)?,
        excludes: selected::excludes(&invocation.context, &args.excludes)?,
    };
    let pool = invocation.open(OpenMode::Read)?;
    let snapshots = KnownSnapshots::of(invocation, &pool)?;
    let filter = SnapshotFilter::new(&args.filter)?;
    let wanted = (name.as_str(), base.as_deref());
    let snapshot = snapshots.at_path(invocation, pool.reader(), wanted, &filter)?;
    let base = base.unwrap_or_default();
    let top_path = normal(&base);
    let root = top(snapshot)?;
    let console = &invocation.console;
    console.message(listing::snapshot(Object::message("snapshot"), snapshot))?;
    let mut paths: Vec<Vec<u8>> = args
        .paths
        .iter()
        .map(|path| normal(&[&base, &b"/"[..], path.as_bytes()].concat()))
        .collect();
    if paths.is_empty() {
        paths.push(normal(&base));
    }
    let owners = listing::OwnerColumns::new(&snapshot.owners);
    let show = |path: &[u8], entry: &Entry| -> std::io::Result<()> {
        let mut line = Vec::new();
        if args.long {
            let long = listing::long(entry, &owners, args.human_readable, &invocation.zone);
            line.extend_from_slice(long.as_bytes());
        }
        line.extend(console.name(path));
        if args.long {
            line.extend_from_slice(listing::arrow(entry).as_bytes());
        }
        console.line(line)?;
        console.message(listing::node(
            Object::message("node"),
            path,
            entry,
            &snapshot.owners,
        ))
    };
    let mut shown = 0u64;
    for path in &paths {
        let found = lookup(pool.reader(), root, path)?;
        let Some(directory) = found.directory() else {
            if let TreePath::Entry(entry) = &found {
                shown += 1;
                show(path, entry)?;
            }
            continue;
        };
        let mut walked = Walked::new(&selection, &top_path, path);
        walk(
            pool.reader(),
            directory,
            path,
            &invocation.interrupt,
            &mut |path, entry| {
                let is_directory = matches!(entry.kind, EntryKind::Directory { .. });
                let verdict = walked.verdict(path, is_directory);
                if verdict.selected {
                    shown += 1;
                    show(path, entry)?;
                }
                Ok(match args.recursive && verdict.enter {
                    true => WalkOn::Enter,
                    false => WalkOn::Skip,
                })
            },
        )?;
    }
    if shown == 0 && !selection.is_all() {
        bail!("nothing that is listed matches; --recursive lists all subdirectories");
    }
    Ok(snapshots.exit_of(&name, Exit::Done))
}
