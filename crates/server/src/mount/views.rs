//! Views: the directories above snapshots. `snapshots/TIME` is the snapshot; `ids`, `hosts` and
//! `tags` have symbolic links to it. `items` calls this.
//!
//! Invariant: a snapshot is a directory in one place only, so the kernel caches its files once.
//! Names are unique. Numbers of views and of their entries are not reused: a name may lead to
//! something else later, a number can only become unused.

use super::disks::Which;
use format::recipe::ObjectRoot;
use format::snapshot::{Snapshot, SnapshotKind};
use jiff::tz::TimeZone;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use store::SnapshotRoot;
use terminal::calendar;
use terminal::latest::supersedes;
use units::{SnapshotId, UnixNanos};

/// Number of digits of a snapshot's id in a name.
const SHORT_DIGITS: usize = 8;
/// Name of the link to the newest snapshot.
const LATEST: &[u8] = b"latest";
/// Number of the top view.
pub(super) const TOP: usize = 0;

/// Kind of an entry of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Another view.
    View(usize),
    /// The directory of volumes or images.
    Disks(Which),
    /// The top directory of a snapshot.
    Snapshot(Arc<Shown>),
    /// A symbolic link.
    Link(Vec<u8>),
}

/// The parts of a snapshot that are shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shown {
    /// Id of the snapshot.
    pub id: SnapshotId,
    /// Kind of its source.
    pub kind: SnapshotKind,
    /// Its contents.
    pub root: ObjectRoot,
    /// Time at which it was taken.
    pub taken: UnixNanos,
    /// Name of the file of an image or stream.
    pub file_name: Vec<u8>,
}

impl Shown {
    /// Returns the record with which the pool holds the snapshot while it is open.
    pub fn as_root(&self) -> SnapshotRoot {
        SnapshotRoot {
            id: self.id,
            taken: self.taken,
            root: self.root,
            is_tree: self.kind == SnapshotKind::Tree,
        }
    }
}

type Names = BTreeMap<Vec<u8>, Target>;
type Groups = BTreeMap<Vec<u8>, Names>;

/// A directory above snapshots.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    /// Entries by number. `None` where an entry was removed.
    entries: Vec<Option<(Vec<u8>, Target)>>,
    numbers: BTreeMap<Vec<u8>, usize>,
}

impl View {
    /// Returns the entry with this number.
    pub fn get(&self, number: usize) -> Option<&(Vec<u8>, Target)> {
        self.entries.get(number)?.as_ref()
    }

    /// Returns the first entry at this number or after it, with its number.
    pub fn from(&self, number: usize) -> Option<(usize, &(Vec<u8>, Target))> {
        let mut entries = self.entries.iter().enumerate().skip(number);
        entries.find_map(|(number, entry)| Some((number, entry.as_ref()?)))
    }

    /// Returns the entry with this name, with its number.
    pub fn find(&self, name: &[u8]) -> Option<(usize, &Target)> {
        let number = *self.numbers.get(name)?;
        let (_, target) = self.get(number)?;
        Some((number, target))
    }

    /// Replaces the entries by `names`. Unchanged entries keep their numbers.
    fn set(&mut self, names: Names) {
        let stays = |number: usize| {
            let entry = self.get(number);
            entry.is_some_and(|(name, target)| names.get(name) == Some(target))
        };
        let removed: BTreeSet<usize> = (0..self.entries.len()).filter(|n| !stays(*n)).collect();
        self.numbers.retain(|_, number| !removed.contains(number));
        for number in removed {
            if let Some(entry) = self.entries.get_mut(number) {
                *entry = None;
            }
        }
        for (name, target) in names {
            if !self.numbers.contains_key(&name) {
                self.numbers.insert(name.clone(), self.entries.len());
                self.entries.push(Some((name, target)));
            }
        }
    }
}

/// All views, by number.
#[derive(Debug)]
pub(super) struct Views {
    views: Vec<Arc<View>>,
    zone: TimeZone,
    /// The list that the views show.
    of: Arc<Vec<Snapshot>>,
}

/// Numbers of the fixed views.
const SNAPSHOTS: usize = 1;
const IDS: usize = 2;
const HOSTS: usize = 3;
const TAGS: usize = 4;

impl Views {
    /// Creates views of no snapshots, with local times in `zone`.
    pub fn new(zone: TimeZone) -> Self {
        let top = [
            ("snapshots", Target::View(SNAPSHOTS)),
            ("ids", Target::View(IDS)),
            ("hosts", Target::View(HOSTS)),
            ("tags", Target::View(TAGS)),
            ("volumes", Target::Disks(Which::Volumes)),
            ("images", Target::Disks(Which::Images)),
        ];
        let mut views = Self {
            views: vec![Arc::default(); TAGS + 1],
            zone,
            of: Arc::default(),
        };
        let top = top.into_iter().map(|(name, to)| (name.into(), to));
        views.set(TOP, top.collect());
        views
    }

    /// Returns true if the views show this list.
    pub fn are_of(&self, snapshots: &Arc<Vec<Snapshot>>) -> bool {
        Arc::ptr_eq(&self.of, snapshots)
    }

    /// Returns the view with this number.
    pub fn get(&self, number: usize) -> Option<&Arc<View>> {
        self.views.get(number)
    }

    fn set(&mut self, number: usize, names: Names) {
        if let Some(view) = self.views.get_mut(number) {
            Arc::make_mut(view).set(names);
        }
    }

    /// Shows `snapshots`, which are in the order of the pool's list.
    pub fn update(&mut self, snapshots: &Arc<Vec<Snapshot>>) {
        let (mut by_time, mut by_id) = (Names::new(), Names::new());
        let (mut by_host, mut by_tag) = (Groups::new(), Groups::new());
        let mut newest = Newest::default();
        for snapshot in snapshots.iter() {
            let id = snapshot.id.to_string();
            let short = id.get(..SHORT_DIGITS).unwrap_or(&id);
            let mut name = calendar::rfc3339_local(snapshot.taken, &self.zone).into_bytes();
            if by_time.contains_key(&name) {
                name = [&name, &b"-"[..], id.as_bytes()].concat();
            }
            let id = match by_id.contains_key(short.as_bytes()) {
                true => &id,
                false => short,
            };
            by_id.insert(id.as_bytes().to_vec(), link(b"../", &name));
            let mut group = |groups: &mut Groups, number: usize, group: &str| {
                let is_latest = newest.is(number, group, snapshot);
                let names = groups.entry(file_name(group)).or_default();
                names.insert(name.clone(), link(b"../../", &name));
                if is_latest {
                    names.insert(LATEST.to_vec(), link(b"../../", &name));
                }
            };
            group(&mut by_host, HOSTS, &snapshot.host);
            for tag in &snapshot.tags {
                group(&mut by_tag, TAGS, tag);
            }
            if newest.is(SNAPSHOTS, "", snapshot) {
                by_time.insert(LATEST.to_vec(), Target::Link(name.clone()));
            }
            by_time.insert(name, Target::Snapshot(Arc::new(Shown::of(snapshot))));
        }
        self.set(SNAPSHOTS, by_time);
        self.set(IDS, by_id);
        for (number, groups) in [(HOSTS, by_host), (TAGS, by_tag)] {
            let mut members = Names::new();
            for (name, names) in groups {
                let found = self.get(number).and_then(|view| view.find(&name));
                let member = match found {
                    Some((_, Target::View(member))) => *member,
                    _ => {
                        self.views.push(Arc::default());
                        self.views.len() - 1
                    }
                };
                self.set(member, names);
                members.insert(name, Target::View(member));
            }
            self.set(number, members);
        }
        self.of = Arc::clone(snapshots);
    }
}

/// The latest snapshot of each directory so far.
#[derive(Default)]
struct Newest<'s>(BTreeMap<(usize, Vec<u8>), &'s Snapshot>);

impl<'s> Newest<'s> {
    /// Returns true if this snapshot is the latest of its directory so far.
    fn is(&mut self, view: usize, group: &str, snapshot: &'s Snapshot) -> bool {
        let best = self.0.entry((view, file_name(group))).or_insert(snapshot);
        let is_latest = supersedes(snapshot, best);
        if is_latest {
            *best = snapshot;
        }
        is_latest
    }
}

impl Shown {
    fn of(snapshot: &Snapshot) -> Self {
        Self {
            id: snapshot.id,
            kind: snapshot.kind,
            root: snapshot.root,
            taken: snapshot.taken,
            file_name: file_name(&snapshot.name),
        }
    }
}

/// Returns a link to a snapshot. `up` leads from the view to the top.
fn link(up: &[u8], name: &[u8]) -> Target {
    Target::Link([up, b"snapshots/", name].concat())
}

/// Converts a text to a valid file name that is not one of the special names.
fn file_name(text: &str) -> Vec<u8> {
    let name = text.replace(['/', '\0'], "_");
    match name.as_str() {
        "" | "." | ".." | "latest" => format!("_{name}").into_bytes(),
        _ => name.into_bytes(),
    }
}

#[cfg(test)]
mod tests;
