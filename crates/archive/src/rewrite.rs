//! Makes a tree without some of its entries from a stored one. The command `rewrite` calls this.
//!
//! Invariant: only directory objects are read and stored, no contents of files. A directory below
//! which nothing is left out stays the same object. Nothing below an excluded directory is read, so
//! a damaged one can be left out; any other damaged directory ends the run.

use crate::observer::Observer;
use crate::selection::Patterns;
use format::recipe::ObjectRoot;
use format::tree::{Entry, EntryKind};
use store::{Reader, StoreError, StoreErrorKind};

/// Parameters of a run.
pub struct RewritePlan<'a> {
    /// The tree.
    pub root: ObjectRoot,
    /// Entries to leave out. Paths begin at the root, with a leading `/`.
    pub excludes: &'a Patterns,
    /// Called with each entry that matches, not with those below it.
    pub left_out: &'a mut dyn FnMut(&[u8], &Entry),
}

/// The new tree, and what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RewriteOutcome {
    /// Its root; that of the old tree if nothing was left out.
    pub root: ObjectRoot,
    /// Entries that matched.
    pub left_out: u64,
    /// Files, links, devices.
    pub files: u64,
    /// Directories below the root.
    pub directories: u64,
    /// Bytes of the files.
    pub bytes: u64,
}

/// A directory that ended the run.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct RewriteError {
    /// Its path, with a leading `/`.
    pub path: Vec<u8>,
    /// The failure of the pool.
    #[source]
    pub error: Box<StoreError>,
}

impl RewriteError {
    fn at(path: &[u8], error: StoreError) -> Self {
        Self {
            path: path.to_vec(),
            error: Box::new(error),
        }
    }
}

/// A directory on the walked path.
struct Level {
    path: Vec<u8>,
    old: ObjectRoot,
    /// Its own entry; `None` for the root.
    own: Option<Entry>,
    rest: std::vec::IntoIter<Entry>,
    kept: Vec<Entry>,
    is_changed: bool,
}

/// Makes the tree. `store` stores a directory object and returns its root; a dry run returns any.
pub fn rewrite_tree(
    reader: &Reader,
    plan: &mut RewritePlan<'_>,
    observer: &dyn Observer,
    store: &mut dyn FnMut(&[u8]) -> Result<ObjectRoot, StoreError>,
) -> Result<RewriteOutcome, RewriteError> {
    let mut outcome = RewriteOutcome {
        root: plan.root,
        left_out: 0,
        files: 0,
        directories: 0,
        bytes: 0,
    };
    let mut levels = vec![level(reader, Vec::new(), plan.root, None)?];
    while let Some(current) = levels.last_mut() {
        if observer.stop_requested() {
            let error = StoreError::new(StoreErrorKind::Interrupted, "");
            return Err(RewriteError::at(&current.path, error));
        }
        let Some(entry) = current.rest.next() else {
            let Some(done) = levels.pop() else { break };
            let root = match done.is_changed {
                true => store(&Entry::encode_directory(&done.kept))
                    .map_err(|error| RewriteError::at(&done.path, error))?,
                false => done.old,
            };
            match (levels.last_mut(), done.own) {
                (Some(above), Some(own)) => {
                    above.is_changed |= done.is_changed;
                    let kind = EntryKind::Directory { content: root };
                    above.kept.push(Entry { kind, ..own });
                }
                _ => outcome.root = root,
            }
            continue;
        };
        let path = [current.path.as_slice(), b"/", entry.name.as_slice()].concat();
        let is_directory = matches!(entry.kind, EntryKind::Directory { .. });
        if plan.excludes.matches(&path, is_directory) == Some(true) {
            current.is_changed = true;
            outcome.left_out += 1;
            (plan.left_out)(&path, &entry);
            continue;
        }
        match &entry.kind {
            EntryKind::Directory { content } => {
                outcome.directories += 1;
                let content = *content;
                levels.push(level(reader, path, content, Some(entry))?);
                continue;
            }
            EntryKind::File { content, .. } => {
                outcome.bytes = outcome.bytes.saturating_add(content.len);
            }
            _ => {}
        }
        outcome.files += 1;
        observer.add_files(1);
        current.kept.push(entry);
    }
    Ok(outcome)
}

fn level(
    reader: &Reader,
    path: Vec<u8>,
    old: ObjectRoot,
    own: Option<Entry>,
) -> Result<Level, RewriteError> {
    match reader.directory(&old) {
        Ok(entries) => Ok(Level {
            path,
            old,
            own,
            rest: entries.into_iter(),
            kept: Vec::new(),
            is_changed: false,
        }),
        Err(error) => Err(RewriteError::at(&path, error)),
    }
}
