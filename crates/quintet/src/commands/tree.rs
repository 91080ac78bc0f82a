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
pub(super) enum Found {
    /// The snapshot's top, which has no entry.
    Top(ObjectRoot),
    /// An entry below the top.
    Entry(Box<Entry>),
}

impl Found {
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
pub(super) fn top(snapshot: &Snapshot) -> anyhow::Result<ObjectRoot> {
    match snapshot.kind {
        SnapshotKind::Tree => Ok(snapshot.root),
        SnapshotKind::Image => bail!(
            "the snapshot is of image {:?}, not of files (use export or serve nbd)",
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
pub(super) fn normal(path: &[u8]) -> Vec<u8> {
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
pub(super) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let directory = directory.strip_suffix(b"/").unwrap_or(directory);
    [directory, b"/", name].concat()
}

/// Looks up `path` below `top`.
pub(super) fn lookup(reader: &Reader, top: ObjectRoot, path: &[u8]) -> anyhow::Result<Found> {
    let mut found = Found::Top(top);
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
            Ok(place) => found = Found::Entry(Box::new(entries.swap_remove(place))),
            Err(_) => bail!("there is no {} in the snapshot", printable(&at)),
        }
    }
    Ok(found)
}

/// How a walk goes on after an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Enter the entry if it is a directory.
    Enter,
    /// Continue after the entry.
    Skip,
}

/// Called with each entry and its path.
pub(super) type Visit<'v> = dyn FnMut(&[u8], &Entry) -> anyhow::Result<Step> + 'v;

/// Visits everything below a directory at `path`.
pub(super) fn walk(
    reader: &Reader,
    directory: ObjectRoot,
    path: &[u8],
    interrupt: &Interrupt,
    visit: &mut Visit<'_>,
) -> anyhow::Result<()> {
    let mut levels = vec![(path.to_vec(), reader.directory(&directory)?.into_iter())];
    while let Some((path, entries)) = levels.last_mut() {
        let Some(entry) = entries.next() else {
            levels.pop();
            continue;
        };
        interrupt.check()?;
        let path = join(path, &entry.name);
        if visit(&path, &entry)? == Step::Enter
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
    fn paths() {
        for (path, expected) in [("", "/"), ("/", "/"), ("a/b/", "/a/b"), ("//a/./b", "/a/b")] {
            assert_eq!(normal(path.as_bytes()), expected.as_bytes());
        }
        assert_eq!(join(b"/", b"a"), b"/a");
        assert_eq!(join(b"/a", b"b"), b"/a/b");
        assert_eq!(join(b"", b"b"), b"/b");
    }
}
