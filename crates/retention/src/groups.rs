//! Groups of snapshots with a common origin. `forget` applies its policy to each group, and
//! findings learn the intervals of each. Both call this.
//!
//! Invariant: no I/O. Each snapshot is in exactly one group, in the reverse order of the pool's
//! list: newest first, and last those from the future.

use format::snapshot::{Snapshot, SnapshotKind};
use std::fmt;
use units::printable::printable;

/// The properties that snapshots of a group share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupBy {
    /// The host.
    pub host: bool,
    /// The source paths, or the name of an image or stream.
    pub paths: bool,
    /// The tags.
    pub tags: bool,
}

impl Default for GroupBy {
    fn default() -> Self {
        Self {
            host: true,
            paths: true,
            tags: false,
        }
    }
}

impl GroupBy {
    /// Parses a list of `host`, `paths` and `tags`. Empty text makes one group of all snapshots.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut by = Self {
            host: false,
            paths: false,
            tags: false,
        };
        for word in text.split(',').map(str::trim).filter(|w| !w.is_empty()) {
            match word {
                "host" | "hosts" => by.host = true,
                "path" | "paths" => by.paths = true,
                "tag" | "tags" => by.tags = true,
                other => {
                    return Err(format!(
                        "cannot group by {other:?}; group by host, paths or tags"
                    ));
                }
            }
        }
        Ok(by)
    }

    fn key<'a>(&self, snapshot: &'a Snapshot) -> GroupKey<'a> {
        let mut paths: Vec<&[u8]> = snapshot.paths.iter().map(Vec::as_slice).collect();
        paths.sort_unstable();
        let mut tags: Vec<&str> = snapshot.tags.iter().map(String::as_str).collect();
        tags.sort_unstable();
        // All states of a volume belong together: their names are `volume@state`.
        let name = match snapshot.kind {
            SnapshotKind::Volume => snapshot.name.split('@').next().unwrap_or_default(),
            _ => snapshot.name.as_str(),
        };
        GroupKey {
            host: self.host.then_some(snapshot.host.as_str()),
            paths: self.paths.then_some((snapshot.kind as u8, name, paths)),
            tags: self.tags.then_some(tags),
        }
    }
}

/// The common properties of a group. `None` for properties that are not compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupKey<'a> {
    /// The host.
    pub host: Option<&'a str>,
    /// Kind, name and sorted paths.
    pub paths: Option<(u8, &'a str, Vec<&'a [u8]>)>,
    /// Sorted tags.
    pub tags: Option<Vec<&'a str>>,
}

/// A group of snapshots.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// Their common properties.
    pub key: GroupKey<'a>,
    /// The snapshots, newest first. Those from the future come last.
    pub snapshots: Vec<&'a Snapshot>,
}

impl Group<'_> {
    /// Describes the group: `host a, paths /home`.
    pub fn describe(&self) -> String {
        let mut parts = Vec::new();
        // Snapshots of volumes have no host.
        if let Some(host) = self.key.host.filter(|host| !host.is_empty()) {
            parts.push(format!("host {host}"));
        }
        let kind = self.snapshots.first().map(|snapshot| snapshot.kind);
        if let (Some((_, name, paths)), Some(kind)) = (&self.key.paths, kind) {
            let listed: Vec<String> = paths.iter().map(|path| printable(path)).collect();
            parts.push(match kind {
                SnapshotKind::Tree => format!("paths {}", listed.join(", ")),
                SnapshotKind::Image => format!("image {}", printable(name.as_bytes())),
                SnapshotKind::Volume => format!("volume {}", printable(name.as_bytes())),
                SnapshotKind::Stream => format!("stream {}", printable(name.as_bytes())),
            });
        }
        if let Some(tags) = &self.key.tags {
            parts.push(format!("tags {}", tags.join(", ")));
        }
        match parts.is_empty() {
            true => "the pool".to_owned(),
            false => parts.join(", "),
        }
    }
}

impl fmt::Display for Group<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

/// Returns all groups, in the order of their keys. The snapshots are in the order of the pool's
/// list.
pub fn group<'a>(snapshots: impl IntoIterator<Item = &'a Snapshot>, by: GroupBy) -> Vec<Group<'a>> {
    let mut groups = std::collections::BTreeMap::<GroupKey<'a>, Vec<&'a Snapshot>>::new();
    for snapshot in snapshots {
        groups.entry(by.key(snapshot)).or_default().push(snapshot);
    }
    groups
        .into_iter()
        .map(|(key, mut snapshots)| {
            snapshots.reverse();
            Group { key, snapshots }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use format::recipe::ObjectRoot;
    use units::{SnapshotId, UnixNanos};

    fn snapshot(number: u8) -> Snapshot {
        Snapshot {
            host: "h".to_owned(),
            paths: vec![b"/home".to_vec()],
            ..Snapshot::new(
                SnapshotId([number; 16]),
                UnixNanos(number.into()),
                SnapshotKind::Tree,
                ObjectRoot::EMPTY,
            )
        }
    }

    #[test]
    fn groups() {
        let mut list: Vec<Snapshot> = (0..6).map(snapshot).collect();
        list[0].host = "other".to_owned();
        list[1].paths = vec![b"/etc".to_vec(), b"/home".to_vec()];
        list[2].paths = vec![b"/home".to_vec(), b"/etc".to_vec()];
        list[3].tags = vec!["t".to_owned()];
        list[4].kind = SnapshotKind::Image;
        list[4].name = "disk".to_owned();
        let sizes = |by: &str| -> Vec<usize> {
            let groups = group(&list, GroupBy::parse(by).unwrap());
            groups.iter().map(|g| g.snapshots.len()).collect()
        };
        assert_eq!(sizes("host,paths"), [2, 2, 1, 1]);
        assert_eq!(sizes("host"), [5, 1]);
        assert_eq!(sizes("paths"), [2, 3, 1]);
        assert_eq!(sizes("tags"), [5, 1]);
        assert_eq!(sizes(""), [6]);
        assert_eq!(GroupBy::parse("hosts, path").unwrap(), GroupBy::default());
        assert!(GroupBy::parse("colour").is_err());
        for group in group(&list, GroupBy::default()) {
            assert!(group.snapshots.is_sorted_by(|a, b| a.taken > b.taken));
        }
    }
}
