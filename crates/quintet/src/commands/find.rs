//! `find`: finds files by name in all or some snapshots. [`super::run`] calls this.
//!
//! Invariant: a search without snapshots is an error, not an empty result. If only names are
//! searched, a directory that contains no match is read once for all snapshots that share it.

use super::invocation::Invocation;
use super::known_snapshots::KnownSnapshots;
use anyhow::{Context, anyhow, bail};
use archive::selection::Patterns;
use browsing::choice::{SnapshotFilter, split_path};
use browsing::listing;
use browsing::tree::{Step, join, lookup, normal, top};
use command_line::FindArgs;
use format::recipe::ObjectRoot;
use format::snapshot::{Snapshot, SnapshotKind};
use format::tree::{Entry, EntryKind};
use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use store::{OpenMode, Pool, Reader, StoreError};
use terminal::calendar;
use terminal::console::printable;
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::names::short_id;
use units::count;
use units::{Fingerprint, UnixNanos};

pub(super) fn run(invocation: &Invocation, args: &FindArgs) -> anyhow::Result<Exit> {
    let mut search = Search::new(invocation, args)?;
    let pool = invocation.open(OpenMode::Read)?;
    let filter = SnapshotFilter::new(&args.filter)?;
    let all = KnownSnapshots::of(invocation, &pool)?;
    let (called, mut meant) = places(invocation, &pool, &all, args, &filter)?;
    if meant.is_empty() {
        all.found(Err(anyhow!(
            "nothing was searched: no snapshot of files was chosen"
        )))?;
    }
    // Newest first: users usually want the newest match.
    meant.reverse();
    let console = &invocation.console;
    let (mut matches, mut damaged) = (0u64, 0u64);
    for Place { snapshot, below } in &meant {
        let directory = match lookup(pool.reader(), snapshot.root, below)?.directory() {
            Some(directory) => directory,
            None => bail!(
                "{} is not a directory in the snapshot; name the directory that it is in",
                printable(below)
            ),
        };
        search.below = below.strip_suffix(b"/").unwrap_or(below).to_vec();
        let mut first = true;
        let owners = listing::OwnerColumns::new(&snapshot.owners);
        let looked = search.visit(pool.reader(), directory, below, &mut |path, entry| {
            if std::mem::take(&mut first) {
                let time = calendar::local(snapshot.taken, &invocation.zone);
                console.line(format!("in snapshot {} of {time}:", short_id(snapshot)))?;
            }
            matches += 1;
            let mut line = b"  ".to_vec();
            if args.long {
                line.extend(listing::long(entry, &owners, false, &invocation.zone).into_bytes());
            }
            line.extend(console.name(path));
            console.line(line)?;
            let object = Object::message("match").text("snapshot", &snapshot.id.to_string());
            console.message(listing::node(object, path, entry, &snapshot.owners))?;
            Ok(Step::Enter)
        });
        match looked {
            // Other snapshots may still contain the file.
            Err(e) if e.downcast_ref().is_some_and(StoreError::is_corruption) => {
                damaged += 1;
                let id = short_id(snapshot);
                console.warn(format_args!(
                    "snapshot {id} is damaged in part: {}",
                    super::failure::text(&e)
                ));
            }
            looked => {
                looked?;
            }
        }
    }
    console.message(
        Object::message("summary")
            .integer("matches", matches)
            .integer("snapshots", meant.len() as u64),
    )?;
    if matches == 0 {
        console.line(format!(
            "nothing found in {}",
            count(meant.len() as u64, "snapshot")
        ))?;
    }
    let exit = match damaged {
        0 => Exit::Done,
        _ => Exit::Damaged,
    };
    Ok(all.exit_of_several(&called, exit))
}

/// A directory of a snapshot.
struct Place<'s> {
    snapshot: &'s Snapshot,
    below: Vec<u8>,
}

/// Returns the names of the snapshots that the user named, and the places to search, oldest first.
fn places<'s>(
    invocation: &Invocation,
    pool: &Pool,
    all: &'s KnownSnapshots,
    args: &FindArgs,
    filter: &SnapshotFilter,
) -> anyhow::Result<(Vec<String>, Vec<Place<'s>>)> {
    let (mut called, mut places) = (Vec::new(), Vec::new());
    if args.snapshot.is_empty() {
        let trees = all.iter().filter(|s| s.kind == SnapshotKind::Tree);
        places.extend(trees.filter(|s| filter.matches(s)).map(|snapshot| Place {
            snapshot,
            below: b"/".to_vec(),
        }));
    }
    for argument in &args.snapshot {
        let (name, path) = split_path(argument)?;
        let wanted = (name.as_str(), path.as_deref());
        let snapshot = all.at_path(invocation, pool.reader(), wanted, filter)?;
        top(snapshot)?;
        called.push(name);
        let below = normal(path.as_deref().unwrap_or_default());
        places.push(Place { snapshot, below });
    }
    places.sort_by_cached_key(|place| (place.snapshot.key(), place.below.clone()));
    places.dedup_by_key(|place| (place.snapshot.id, place.below.clone()));
    Ok((called, places))
}

struct Search<'i> {
    invocation: &'i Invocation,
    patterns: Patterns,
    oldest: Option<UnixNanos>,
    newest: Option<UnixNanos>,
    /// Every pattern is a plain name, so matches below a directory do not depend on its path.
    names_only: bool,
    /// The searched directory, without a `/` at its end: patterns begin there.
    below: Vec<u8>,
    /// Directories below which nothing matches.
    barren: HashSet<Fingerprint>,
}

impl<'i> Search<'i> {
    fn new(invocation: &'i Invocation, args: &FindArgs) -> anyhow::Result<Self> {
        let mut patterns = Patterns::default();
        for pattern in &args.patterns {
            patterns.add(pattern.as_bytes(), args.ignore_case)?;
        }
        let time = |name: &'static str, text: &Option<String>| {
            let parse = |text: &String| calendar::parse_time(text, &invocation.zone);
            text.as_ref().map(parse).transpose().context(name)
        };
        let mut plain = args.patterns.iter().map(|p| p.as_bytes());
        Ok(Self {
            invocation,
            names_only: plain.all(|p| !p.contains(&b'/') && p != b"**"),
            patterns,
            oldest: time("--oldest", &args.oldest)?,
            newest: time("--newest", &args.newest)?,
            below: Vec::new(),
            barren: HashSet::new(),
        })
    }

    /// Visits the matches below a directory. Returns true if there were any.
    fn visit(
        &mut self,
        reader: &Reader,
        directory: ObjectRoot,
        path: &[u8],
        found: &mut browsing::tree::EntryVisitor<'_>,
    ) -> anyhow::Result<bool> {
        if self.barren.contains(&directory.fingerprint) {
            return Ok(false);
        }
        let mut any = false;
        for entry in reader.directory(&directory)? {
            self.invocation.interrupt.check()?;
            let path = join(path, &entry.name);
            if self.matches(&path, &entry) {
                any = true;
                found(&path, &entry)?;
            }
            if let EntryKind::Directory { content } = entry.kind {
                any |= self.visit(reader, content, &path, found)?;
            }
        }
        if !any && self.names_only {
            self.barren.insert(directory.fingerprint);
        }
        Ok(any)
    }

    fn matches(&self, path: &[u8], entry: &Entry) -> bool {
        let is_directory = matches!(entry.kind, EntryKind::Directory { .. });
        let seconds = |time: UnixNanos| time.0.div_euclid(1_000_000_000);
        let modified = entry.modified.seconds;
        let path = path.strip_prefix(self.below.as_slice()).unwrap_or(path);
        self.patterns.matches(path, is_directory) == Some(true)
            && self.oldest.is_none_or(|oldest| modified >= seconds(oldest))
            && self.newest.is_none_or(|newest| modified <= seconds(newest))
    }
}
