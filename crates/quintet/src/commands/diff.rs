//! `diff`: compares two snapshots or two directories in them, or two states of an image.
//! [`super::run`] calls this.
//!
//! Invariant: directories that are the same object are not read, so the cost is that of the
//! differences.

mod image;

use super::invocation::Invocation;
use super::known_snapshots::KnownSnapshots;
use anyhow::bail;
use browsing::choice::{LATEST, SnapshotFilter, choose, split_path};
use browsing::listing;
use browsing::tree::{join, lookup, normal, top};
use command_line::DiffArgs;
use format::recipe::ObjectRoot;
use format::snapshot::{Snapshot, SnapshotKind};
use format::tree::{Entry, EntryKind};
use std::cmp::Ordering;
use std::ffi::OsStr;
use store::{OpenMode, Pool, Reader};
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::sizes;
use units::count;

pub(super) fn run(invocation: &Invocation, args: &DiffArgs) -> anyhow::Result<Exit> {
    let pool = invocation.open(OpenMode::Read)?;
    let snapshots = KnownSnapshots::of(invocation, &pool)?;
    let filter = SnapshotFilter::new(&args.filter)?;
    let named = |argument| Named::new(invocation, pool.reader(), &snapshots, argument, &filter);
    let (before, after) = (named(&args.before)?, named(&args.after)?);
    let is_tree = |named: &Named<'_>| named.snapshot.kind == SnapshotKind::Tree;
    match (is_tree(&before), is_tree(&after)) {
        (true, true) => {
            let mut diff = Diff {
                invocation,
                reader: pool.reader(),
                metadata: args.metadata,
                counts: Counts::default(),
            };
            let (before, after) = (before.directory(&pool)?, after.directory(&pool)?);
            diff.directories(b"/", Some(before), Some(after))?;
            diff.summary()?;
        }
        (false, false) => image::diff(invocation, &pool, before.snapshot, after.snapshot)?,
        _ => bail!("cannot compare a file tree with an image or a stream"),
    }
    let exit = snapshots.exit_of(&before.called, Exit::Done);
    Ok(snapshots.exit_of(&after.called, exit))
}

/// An argument, resolved.
struct Named<'s> {
    called: String,
    snapshot: &'s Snapshot,
    path: Vec<u8>,
}

impl<'s> Named<'s> {
    /// Resolves `SNAPSHOT[:PATH]`, or `NAME[@SNAPSHOT]` of an image.
    fn new(
        invocation: &Invocation,
        reader: &Reader,
        snapshots: &'s KnownSnapshots,
        argument: &OsStr,
        filter: &SnapshotFilter,
    ) -> anyhow::Result<Self> {
        let (called, path) = split_path(argument)?;
        let snapshot = match choose(snapshots, &called, filter) {
            Err(_) if called != LATEST && path.is_none() => {
                snapshots.found(snapshots.named(&called, filter))?
            }
            _ => snapshots.at_path(invocation, reader, (&called, path.as_deref()), filter)?,
        };
        Ok(Self {
            snapshot,
            called,
            path: normal(&path.unwrap_or_default()),
        })
    }

    fn directory(&self, pool: &Pool) -> anyhow::Result<ObjectRoot> {
        match lookup(pool.reader(), top(self.snapshot)?, &self.path)?.directory() {
            Some(directory) => Ok(directory),
            None => bail!(
                "{} is not a directory in {}",
                String::from_utf8_lossy(&self.path),
                self.called
            ),
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    added: Side,
    removed: Side,
    changed: u64,
    metadata_changed: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Side {
    files: u64,
    directories: u64,
    bytes: u64,
}

impl Side {
    fn add(&mut self, entry: &Entry) {
        match entry.kind {
            EntryKind::Directory { .. } => self.directories += 1,
            _ => self.files += 1,
        }
        self.bytes += listing::len(entry);
    }

    fn object(&self) -> Object {
        Object::new()
            .integer("files", self.files)
            .integer("directories", self.directories)
            .integer("bytes", self.bytes)
    }
}

struct Diff<'d> {
    invocation: &'d Invocation,
    reader: &'d Reader,
    metadata: bool,
    counts: Counts,
}

impl Diff<'_> {
    /// Compares two directories. A missing directory has no entries.
    fn directories(
        &mut self,
        path: &[u8],
        before: Option<ObjectRoot>,
        after: Option<ObjectRoot>,
    ) -> anyhow::Result<()> {
        if before == after {
            return Ok(());
        }
        self.invocation.interrupt.check()?;
        let read = |root: Option<ObjectRoot>| match root {
            Some(root) => self.reader.directory(&root),
            None => Ok(Vec::new()),
        };
        let mut before = read(before)?.into_iter().peekable();
        let mut after = read(after)?.into_iter().peekable();
        loop {
            let order = match (before.peek(), after.peek()) {
                (None, None) => return Ok(()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(b), Some(a)) => b.name.cmp(&a.name),
            };
            let b = before.next_if(|_| order.is_le());
            let a = after.next_if(|_| order.is_ge());
            let Some(name) = b.as_ref().or(a.as_ref()).map(|entry| &entry.name) else {
                return Ok(());
            };
            let path = join(path, name);
            self.entries(&path, b.as_ref(), a.as_ref())?;
        }
    }

    fn entries(
        &mut self,
        path: &[u8],
        before: Option<&Entry>,
        after: Option<&Entry>,
    ) -> anyhow::Result<()> {
        let directory = |entry: Option<&Entry>| match entry?.kind {
            EntryKind::Directory { content } => Some(content),
            _ => None,
        };
        match (before, after) {
            (Some(b), None) => {
                self.counts.removed.add(b);
                self.say('-', path, b)?;
            }
            (None, Some(a)) => {
                self.counts.added.add(a);
                self.say('+', path, a)?;
            }
            (Some(b), Some(a)) => {
                if std::mem::discriminant(&b.kind) != std::mem::discriminant(&a.kind) {
                    self.counts.changed += 1;
                    self.say('T', path, a)?;
                } else if content(b) != content(a) && directory(before).is_none() {
                    self.counts.changed += 1;
                    self.say('M', path, a)?;
                } else if metadata(b) != metadata(a) {
                    self.counts.metadata_changed += 1;
                    if self.metadata {
                        self.say('U', path, a)?;
                    }
                }
            }
            (None, None) => return Ok(()),
        }
        self.directories(path, directory(before), directory(after))
    }

    fn say(&self, modifier: char, path: &[u8], entry: &Entry) -> std::io::Result<()> {
        let console = &self.invocation.console;
        let mut line = format!("{modifier}    ").into_bytes();
        line.extend(console.name(path));
        if matches!(entry.kind, EntryKind::Directory { .. }) {
            line.push(b'/');
        }
        console.line(line)?;
        console.message(
            Object::message("change")
                .path("path", path)
                .text("modifier", &modifier.to_string())
                .text("type", listing::type_name(&entry.kind)),
        )
    }

    fn summary(&self) -> std::io::Result<()> {
        let console = &self.invocation.console;
        let Counts {
            added,
            removed,
            changed,
            metadata_changed,
        } = self.counts;
        console.message(
            Object::message("summary")
                .object("added", added.object())
                .object("removed", removed.object())
                .integer("changed_files", changed)
                .integer("changed_metadata", metadata_changed),
        )?;
        for (what, side) in [("added", added), ("removed", removed)] {
            let (files, directories) = (
                count(side.files, "file"),
                count(side.directories, "directory"),
            );
            let bytes = sizes::display(side.bytes);
            console.line(format!("{files} and {directories} {what}, {bytes}"))?;
        }
        console.line(format!(
            "{} changed, {metadata_changed} only in metadata",
            count(changed, "file")
        ))
    }
}

/// Returns the content of an entry. Equal bytes are equal content, whether they are holes or stored
/// zeroes.
fn content(entry: &Entry) -> EntryKind {
    match &entry.kind {
        EntryKind::File { content, .. } => EntryKind::File {
            content: *content,
            sparse: false,
        },
        other => other.clone(),
    }
}

/// Returns the metadata that users see and set.
fn metadata(entry: &Entry) -> impl PartialEq + '_ {
    let Entry {
        mode,
        uid,
        gid,
        modified,
        xattrs,
        ..
    } = entry;
    (mode, uid, gid, modified, xattrs)
}
