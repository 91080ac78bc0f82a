//! Maps names of volumes to paths: a `/` in a name makes a directory. Volume files call this.
//!
//! Invariant: every volume has exactly one path. Where a name is both a volume's and the beginning
//! of another's, it is the directory. The volume then has an `@` after its name, which no volume's
//! name ends with.

use super::registry::{VolumeEntry, VolumeList};
use std::ops::Bound;

/// Type of a name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Child<'a> {
    /// A volume.
    Volume(&'a VolumeEntry),
    /// A directory that contains volumes.
    Directory,
}

/// Returns the first key after all names that begin with `path` and a `/`.
fn end_of(path: &str) -> String {
    format!("{path}0")
}

fn is_directory(all: &VolumeList, path: &str) -> bool {
    let below = (
        Bound::Included(join(path, "")),
        Bound::Excluded(end_of(path)),
    );
    all.by_name.range(below).next().is_some()
}

/// Finds `name` in `directory`: a path without `/` at its ends, empty for the top.
pub(super) fn child<'a>(all: &'a VolumeList, directory: &str, name: &str) -> Option<Child<'a>> {
    let path = join(directory, name);
    if is_directory(all, &path) {
        return Some(Child::Directory);
    }
    let volume = all.by_name.get(&path).or_else(|| {
        let volume = path.strip_suffix('@')?;
        let hidden = is_directory(all, volume);
        all.by_name.get(volume).filter(|_| hidden)
    });
    volume.map(Child::Volume)
}

/// Returns all children of `directory`, always in the same order.
pub(super) fn children<'a>(all: &'a VolumeList, directory: &str) -> Vec<(String, Child<'a>)> {
    let above = match directory {
        "" => String::new(),
        path => join(path, ""),
    };
    let mut children = Vec::new();
    let mut from = Bound::Included(above.clone());
    while let Some((path, entry)) = all.by_name.range((from, Bound::Unbounded)).next() {
        let Some(below) = path.strip_prefix(&above) else {
            break;
        };
        from = match below.split_once('/') {
            Some((first, _)) => {
                children.push((first.to_owned(), Child::Directory));
                Bound::Included(end_of(&join(directory, first)))
            }
            None => {
                let mark = if is_directory(all, path) { "@" } else { "" };
                children.push((format!("{below}{mark}"), Child::Volume(entry)));
                Bound::Excluded(path.clone())
            }
        };
    }
    children
}

/// Returns the path of `name` in `directory`.
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

    fn list(names: &[&str]) -> VolumeList {
        let entry = |(number, name): (usize, &&str)| VolumeEntry {
            id: VolumeId((number as u128).to_be_bytes()),
            name: (*name).to_owned(),
            size_bytes: 0,
            frozen: false,
            modified: None,
        };
        names.iter().enumerate().map(entry).collect()
    }

    #[test]
    fn every_volume_has_one_path() {
        let all = list(&[
            "a", "a b", "a-", "a/b", "a/b/c", "a@x", "ab", "d/e/f", "d/e/g", "z",
        ]);
        let mut found = Vec::new();
        let mut directories = vec![String::new()];
        while let Some(directory) = directories.pop() {
            for (name, of_name) in children(&all, &directory) {
                assert_eq!(child(&all, &directory, &name), Some(of_name));
                match of_name {
                    Child::Directory => directories.push(join(&directory, &name)),
                    Child::Volume(entry) => {
                        found.push((join(&directory, &name), entry.name.as_str()));
                    }
                }
            }
        }
        found.sort();
        let expected = [
            ("a b", "a b"),
            ("a-", "a-"),
            ("a/b/c", "a/b/c"),
            ("a/b@", "a/b"),
            ("a@", "a"),
            ("a@x", "a@x"),
            ("ab", "ab"),
            ("d/e/f", "d/e/f"),
            ("d/e/g", "d/e/g"),
            ("z", "z"),
        ];
        let found: Vec<_> = found.iter().map(|(p, n)| (p.as_str(), *n)).collect();
        assert_eq!(found, expected);
        assert!(children(&all, "ab").is_empty());
        assert!(children(&all, "nothing").is_empty());
        assert_eq!(child(&all, "", "z@"), None);
        assert_eq!(child(&all, "d", "e/f@"), None);
    }
}
