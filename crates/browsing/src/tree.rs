//! Walks the directories of a snapshot and looks up paths. Commands that read trees call this.
//!
//! Invariant: paths begin with `/` at the snapshot's top. Entries are sorted by name, and a
//! directory comes before its contents.

use anyhow::bail;
use format::recipe::ObjectRoot;
use format::snapshot::{Snapshot, SnapshotKind};
use format::tree::{Entry, EntryKind};
use store::Reader;
use terminal::console::printable;
use terminal::interrupt::Interrupt;

/// Result of a look-up.
#[derive(Clone, Debug)]
pub enum TreePath {
    /// The snapshot's top, which has no entry.
    Top(ObjectRoot),
    /// An entry below the top.
    Entry(Box<Entry>),
}

impl TreePath {
    /// Returns the directory object, if this is a directory.
    pub fn directory(&self) -> Option<ObjectRoot> {
        match self {
            Self::Top(root) => Some(*root),
            Self::Entry(entry) => match entry.kind {
                EntryKind::Directory { content } => Some(content),
                _ => None,
            },
        }
    }
}

/// Returns the root directory of a snapshot of a tree. Fails for other kinds.
pub fn top(snapshot: &Snapshot) -> anyhow::Result<ObjectRoot> {
    match snapshot.kind {
        SnapshotKind::Tree => Ok(snapshot.root),
        SnapshotKind::Image => bail!(
            "the snapshot is of image {:?}, not of files (use export or serve)",
            snapshot.name
        ),
        SnapshotKind::Volume => bail!(
            "the snapshot is of volume {:?}, not of files (use export or serve)",
            snapshot.name
        ),
        SnapshotKind::Stream => bail!(
            "the snapshot is of stream {:?}, not of files (use dump)",
            snapshot.name
        ),
    }
}

/// Returns `path` with a leading `/`, no trailing one and no empty names.
pub fn normal(path: &[u8]) -> Vec<u8> {
    let names = path.split(|b| *b == b'/');
    let names = names.filter(|name| !name.is_empty() && *name != b".");
    let out = names.fold(Vec::new(), |mut out, name| {
        out.push(b'/');
        out.extend_from_slice(name);
        out
    });
    match out.is_empty() {
        true => b"/".to_vec(),
        false => out,
    }
}

/// Returns `directory/name`.
pub fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let directory = directory.strip_suffix(b"/").unwrap_or(directory);
    [directory, b"/", name].concat()
}

/// Looks up `path` below `top`.
pub fn lookup(reader: &Reader, top: ObjectRoot, path: &[u8]) -> anyhow::Result<TreePath> {
    let mut found = TreePath::Top(top);
    let mut at = Vec::new();
    for name in path.split(|b| *b == b'/') {
        if name.is_empty() || name == b"." {
            continue;
        }
        let Some(directory) = found.directory() else {
            bail!("{} is not a directory in the snapshot", printable(&at));
        };
        at = join(&at, name);
        let mut entries = reader.directory(&directory)?;
        match entries.binary_search_by(|entry| entry.name.as_slice().cmp(name)) {
            Ok(place) => found = TreePath::Entry(Box::new(entries.swap_remove(place))),
            Err(_) => {
                let why = format!("there is no {} in the snapshot", printable(&at));
                bail!(with_nearest(why, nearest(reader, top, path)));
            }
        }
    }
    Ok(found)
}

/// Maximum number of names that a message suggests.
const NEAREST_MAX: usize = 3;

/// Returns the paths in a tree that are nearest to one that is not there: names alike where it
/// leaves the tree, or some of the names there.
pub fn nearest(reader: &Reader, top: ObjectRoot, path: &[u8]) -> Vec<String> {
    let (mut directory, mut at) = (top, Vec::new());
    for name in path.split(|b| *b == b'/') {
        if name.is_empty() || name == b"." {
            continue;
        }
        // A damaged directory suggests nothing.
        let mut entries = reader.directory(&directory).unwrap_or_default();
        let found = entries.binary_search_by(|entry| entry.name.as_slice().cmp(name));
        if let Ok(place) = found
            && let EntryKind::Directory { content } = entries.swap_remove(place).kind
        {
            at = join(&at, name);
            directory = content;
            continue;
        }
        entries.sort_by_key(|entry| edits(&entry.name, name));
        let is_alike = |entry: &&Entry| edits(&entry.name, name) <= 1 + name.len() / 3;
        let alike: Vec<_> = entries.iter().filter(is_alike).take(NEAREST_MAX).collect();
        let shown = match alike.is_empty() {
            true => entries.iter().take(NEAREST_MAX).collect(),
            false => alike,
        };
        let paths = shown.into_iter().map(|entry| join(&at, &entry.name));
        return paths.map(|path| printable(&path)).collect();
    }
    Vec::new()
}

/// Adds the nearest names to a message about one that is not there.
pub fn with_nearest(why: String, near: Vec<String>) -> String {
    match near.is_empty() {
        true => why,
        false => format!("{why}; the nearest: {}", near.join(", ")),
    }
}

/// Number of bytes to add, remove or replace to make one name of the other. The case of letters
/// does not count.
fn edits(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let (mut above_left, mut left) = (i, i + 1);
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (cell, y) in row.iter_mut().skip(1).zip(b) {
            let change = above_left + usize::from(!x.eq_ignore_ascii_case(y));
            above_left = *cell;
            left = change.min(above_left + 1).min(left + 1);
            *cell = left;
        }
    }
    row.last().copied().unwrap_or_default()
}

/// How a walk goes on after an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkOn {
    /// Enter the entry if it is a directory.
    Enter,
    /// Continue after the entry.
    Skip,
}

/// Called with each entry and its path.
pub type EntryVisitor<'v> = dyn FnMut(&[u8], &Entry) -> anyhow::Result<WalkOn> + 'v;

/// Visits everything below a directory at `path`.
pub fn walk(
    reader: &Reader,
    directory: ObjectRoot,
    path: &[u8],
    interrupt: &Interrupt,
    visit: &mut EntryVisitor<'_>,
) -> anyhow::Result<()> {
    let mut levels = vec![(path.to_vec(), reader.directory(&directory)?.into_iter())];
    while let Some((path, entries)) = levels.last_mut() {
        let Some(entry) = entries.next() else {
            levels.pop();
            continue;
        };
        interrupt.check()?;
        let path = join(path, &entry.name);
        if visit(&path, &entry)? == WalkOn::Enter
            && let EntryKind::Directory { content } = entry.kind
        {
            levels.push((path, reader.directory(&content)?.into_iter()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_alike() {
        for (a, b, expected) in [
            ("alice", "alcie", 2),
            ("Alice", "alice", 0),
            ("kitten", "sitting", 3),
            ("", "abc", 3),
            ("abc", "", 3),
            ("same", "same", 0),
        ] {
            let found = edits(a.as_bytes(), b.as_bytes());
            assert_eq!(found, expected, "{a} {b}");
        }
    }

    #[test]
    fn paths() {
        for (path, expected) in [("", "/"), ("/", "/"), ("a/b/", "/a/b"), ("//a/./b", "/a/b")] {
            assert_eq!(normal(path.as_bytes()), expected.as_bytes());
        }
        assert_eq!(join(b"/", b"a"), b"/a");
        assert_eq!(join(b"/a", b"b"), b"/a/b");
        assert_eq!(join(b"", b"b"), b"/b");
    }
}
