//! Names of volumes as paths: a `/` in a name makes a directory.
//!
//! Invariant: every volume stands at exactly one path. Where a name is both a volume's and the beginning
//! of another's, it is the directory, and the volume has an `@` behind its name, which no
//! volume's name has.

use super::registry::VolumeEntry;
use std::collections::{BTreeMap, BTreeSet};

/// What a name in a directory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Child {
    /// A volume.
    Volume(VolumeEntry),
    /// Volumes are below it.
    Directory,
}

/// What is in `directory`: a path without `/` at its ends, empty for the top.
pub(super) fn children(all: Vec<VolumeEntry>, directory: &str) -> BTreeMap<String, Child> {
    let mut directories = BTreeSet::new();
    let mut volumes = BTreeMap::new();
    for entry in all {
        let below = match directory {
            "" => Some(entry.name.as_str()),
            above => entry
                .name
                .strip_prefix(above)
                .and_then(|rest| rest.strip_prefix('/')),
        };
        match below.map(|below| below.split_once('/')) {
            None => {}
            Some(Some((first, _))) => {
                directories.insert(first.to_owned());
            }
            Some(None) => {
                let name = below.unwrap_or_default().to_owned();
                volumes.insert(name, entry);
            }
        }
    }
    let mut children: BTreeMap<String, Child> = volumes
        .into_iter()
        .map(|(name, entry)| match directories.contains(&name) {
            true => (name + "@", Child::Volume(entry)),
            false => (name, Child::Volume(entry)),
        })
        .collect();
    children.extend(directories.into_iter().map(|d| (d, Child::Directory)));
    children
}

/// The path of `name` in `directory`.
pub(super) fn join(directory: &str, name: &str) -> String {
    match directory {
        "" => name.to_owned(),
        above => format!("{above}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::VolumeId;

    fn entries(names: &[&str]) -> Vec<VolumeEntry> {
        let entry = |name: &&str| VolumeEntry {
            id: VolumeId::default(),
            name: (*name).to_owned(),
            size_bytes: 0,
            read_only: false,
            modified: None,
        };
        names.iter().map(entry).collect()
    }

    #[test]
    fn every_volume_has_one_path() {
        let names = ["a", "a/b", "a/b/c", "ab", "d/e/f", "d/e/g", "z"];
        let mut found = Vec::new();
        let mut directories = vec![String::new()];
        while let Some(directory) = directories.pop() {
            for (name, child) in children(entries(&names), &directory) {
                match child {
                    Child::Directory => directories.push(join(&directory, &name)),
                    Child::Volume(entry) => found.push((join(&directory, &name), entry.name)),
                }
            }
        }
        found.sort();
        let expected = [
            ("a/b/c", "a/b/c"),
            ("a/b@", "a/b"),
            ("a@", "a"),
            ("ab", "ab"),
            ("d/e/f", "d/e/f"),
            ("d/e/g", "d/e/g"),
            ("z", "z"),
        ];
        let found: Vec<_> = found
            .iter()
            .map(|(p, n)| (p.as_str(), n.as_str()))
            .collect();
        assert_eq!(found, expected);
        assert!(children(entries(&names), "ab").is_empty());
        assert!(children(entries(&names), "nothing").is_empty());
    }
}
