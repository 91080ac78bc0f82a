//! The directories above snapshots: by time, and links to that by id, host and tag.
//!
//! Invariant: a snapshot is a directory in one place only, `snapshots/TIME`; everything else are
//! links to it, so the kernel caches its files once. Names are unique and sorted. Built once, when
//! the pool is mounted.

use crate::calendar;
use format::recipe::ObjectRoot;
use format::snapshot::{Snapshot, SnapshotKind};
use jiff::tz::TimeZone;
use std::collections::BTreeMap;
use units::UnixNanos;

/// Digits of a snapshot's name that people see.
const SHORT_DIGITS: usize = 8;
/// Name of the link to the newest snapshot.
const LATEST: &[u8] = b"latest";

/// What a name in a view leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Another view.
    View(usize),
    /// The directory of volumes.
    Volumes,
    /// A snapshot, by its number.
    Snapshot(usize),
    /// A symbolic link.
    Link(Vec<u8>),
}

/// A directory above snapshots.
#[derive(Debug, Default)]
pub(super) struct View {
    /// The directory above; the top's own number for the top.
    pub parent: usize,
    /// Sorted by name.
    pub entries: Vec<(Vec<u8>, Target)>,
}

/// A snapshot as far as it is shown.
#[derive(Debug)]
pub(super) struct Shown {
    /// What it is of.
    pub kind: SnapshotKind,
    /// Its contents.
    pub root: ObjectRoot,
    /// When it was taken.
    pub taken: UnixNanos,
    /// Name of the file of an image or stream.
    pub file_name: Vec<u8>,
}

/// All directories above snapshots; the first is the top.
#[derive(Debug)]
pub(super) struct Views {
    /// By number.
    pub views: Vec<View>,
    /// By number.
    pub snapshots: Vec<Shown>,
}

type Names = BTreeMap<Vec<u8>, Target>;
type Groups = BTreeMap<Vec<u8>, Names>;

impl Views {
    /// Of `snapshots`, oldest first, with times in `zone`.
    pub fn new(snapshots: &[Snapshot], zone: &TimeZone) -> Self {
        let (mut by_time, mut by_id) = (Names::new(), Names::new());
        let (mut by_host, mut by_tag) = (Groups::new(), Groups::new());
        let mut shown = Vec::new();
        for (number, snapshot) in snapshots.iter().enumerate() {
            let id = snapshot.id.to_string();
            let short = id.get(..SHORT_DIGITS).unwrap_or(&id);
            let mut name = calendar::rfc3339_local(snapshot.taken, zone).into_bytes();
            if by_time.contains_key(&name) {
                name = [&name, &b"-"[..], id.as_bytes()].concat();
            }
            let id = match by_id.contains_key(short.as_bytes()) {
                true => &id,
                false => short,
            };
            by_id.insert(id.as_bytes().to_vec(), link(b"../", &name));
            let group = |groups: &mut Groups, group: &str| {
                let names = groups.entry(file_name(group)).or_default();
                for name_in_group in [name.clone(), LATEST.to_vec()] {
                    names.insert(name_in_group, link(b"../../", &name));
                }
            };
            group(&mut by_host, &snapshot.host);
            for tag in &snapshot.tags {
                group(&mut by_tag, tag);
            }
            by_time.insert(LATEST.to_vec(), Target::Link(name.clone()));
            by_time.insert(name, Target::Snapshot(number));
            shown.push(Shown {
                kind: snapshot.kind,
                root: snapshot.root,
                taken: snapshot.taken,
                file_name: file_name(&snapshot.name),
            });
        }
        let mut views = vec![View::default()];
        let mut top = Names::from([(b"volumes".to_vec(), Target::Volumes)]);
        for (name, names) in [("snapshots", by_time), ("ids", by_id)] {
            let number = add(&mut views, 0, names);
            top.insert(name.into(), Target::View(number));
        }
        for (name, groups) in [("hosts", by_host), ("tags", by_tag)] {
            let number = add(&mut views, 0, Names::new());
            top.insert(name.into(), Target::View(number));
            let members = groups.into_iter();
            let members: Names = members
                .map(|(name, names)| (name, Target::View(add(&mut views, number, names))))
                .collect();
            if let Some(view) = views.get_mut(number) {
                view.entries = members.into_iter().collect();
            }
        }
        if let Some(view) = views.first_mut() {
            view.entries = top.into_iter().collect();
        }
        Self {
            views,
            snapshots: shown,
        }
    }
}

fn add(views: &mut Vec<View>, parent: usize, names: Names) -> usize {
    views.push(View {
        parent,
        entries: names.into_iter().collect(),
    });
    views.len() - 1
}

/// A link to a snapshot, from some levels below the top.
fn link(up: &[u8], name: &[u8]) -> Target {
    Target::Link([up, b"snapshots/", name].concat())
}

/// A text as the name of a file: no `/`, and none of those that mean something else.
fn file_name(text: &str) -> Vec<u8> {
    let name = text.replace(['/', '\0'], "_");
    match name.as_str() {
        "" | "." | ".." | "latest" => format!("_{name}").into_bytes(),
        _ => name.into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::SnapshotId;

    fn snapshot(id: u8, second: i64, host: &str, tags: &[&str]) -> Snapshot {
        Snapshot {
            id: SnapshotId([id; 16]),
            taken: UnixNanos(second * 1_000_000_000 + 5),
            kind: SnapshotKind::Image,
            root: ObjectRoot::EMPTY,
            name: "a/b".to_owned(),
            host: host.to_owned(),
            user: String::new(),
            program: String::new(),
            paths: Vec::new(),
            tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
            files: 0,
            directories: 0,
            logical_bytes: 0,
            added_bytes: 0,
            duration_ms: 0,
            parent: SnapshotId::default(),
            signature: Vec::new(),
        }
    }

    /// Every path, with what it leads to.
    fn paths(views: &Views, view: usize, above: &str, into: &mut Vec<String>) {
        for (name, target) in &views.views[view].entries {
            let path = format!("{above}/{}", String::from_utf8_lossy(name));
            match target {
                Target::View(number) => {
                    assert_eq!(views.views[*number].parent, view);
                    paths(views, *number, &path, into);
                }
                Target::Volumes => into.push(path),
                Target::Snapshot(number) => into.push(format!("{path} = {number}")),
                Target::Link(to) => {
                    into.push(format!("{path} -> {}", String::from_utf8_lossy(to)));
                }
            }
        }
    }

    #[test]
    fn snapshots_stand_in_one_place_and_links_lead_there() {
        let one = snapshot(0x11, 0, "web/1", &["a", "b"]);
        let two = snapshot(0x22, 0, "..", &["b"]);
        let mut three = snapshot(0x22, 86_400, "", &[]);
        three.id.0[15] = 0;
        let views = Views::new(&[one, two, three], &TimeZone::UTC);
        let mut found = Vec::new();
        paths(&views, 0, "", &mut found);
        let (t1, t3) = ("1970-01-01T00:00:00+00:00", "1970-01-02T00:00:00+00:00");
        let t2 = format!("{t1}-22222222222222222222222222222222");
        let expected = [
            format!("/hosts/_/{t3} -> ../../snapshots/{t3}"),
            format!("/hosts/_/latest -> ../../snapshots/{t3}"),
            format!("/hosts/_../{t2} -> ../../snapshots/{t2}"),
            format!("/hosts/_../latest -> ../../snapshots/{t2}"),
            format!("/hosts/web_1/{t1} -> ../../snapshots/{t1}"),
            format!("/hosts/web_1/latest -> ../../snapshots/{t1}"),
            format!("/ids/11111111 -> ../snapshots/{t1}"),
            format!("/ids/22222222 -> ../snapshots/{t2}"),
            format!("/ids/22222222222222222222222222222200 -> ../snapshots/{t3}"),
            format!("/snapshots/{t1} = 0"),
            format!("/snapshots/{t2} = 1"),
            format!("/snapshots/{t3} = 2"),
            format!("/snapshots/latest -> {t3}"),
            format!("/tags/a/{t1} -> ../../snapshots/{t1}"),
            format!("/tags/a/latest -> ../../snapshots/{t1}"),
            format!("/tags/b/{t1} -> ../../snapshots/{t1}"),
            format!("/tags/b/{t2} -> ../../snapshots/{t2}"),
            format!("/tags/b/latest -> ../../snapshots/{t2}"),
            "/volumes".to_owned(),
        ];
        assert_eq!(found, expected);
        assert_eq!(views.snapshots[0].file_name, b"a_b");
    }
}
