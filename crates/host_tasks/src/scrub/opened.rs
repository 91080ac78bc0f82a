//! Opens directories and files of the disk for the task, and keeps those that are used next.
//!
//! Invariant: below the top, each name is opened in its directory and no link is followed.

use super::tree::{FileTree, join};
use archive::filesystem::PathError;
use archive::filesystem::capture::{Directory, Sameness};
use format::tree::{Entry, EntryKind};
use linux_host::{FileState, Medium};
use std::ffi::CString;
use std::io;
use std::sync::Arc;
use store::{Reader, Result};

/// A place of the tree, as it is on the disk.
#[derive(Debug)]
pub(crate) enum Place<T> {
    /// It is there.
    There(T),
    /// It does not exist, or something of another kind has its name.
    Deleted,
    /// It was changed since the snapshot.
    Changed,
    /// It cannot be opened.
    Failed(PathError),
}

/// A file that is unchanged since the snapshot.
#[derive(Debug)]
pub(crate) struct OpenedFile {
    pub number: u64,
    pub entry: Entry,
    pub medium: Medium,
    /// Path below the top.
    pub path: Vec<u8>,
}

impl OpenedFile {
    /// Returns true if times, inode and size are those of the snapshot.
    pub fn is_unchanged(&self) -> bool {
        let EntryKind::File { content, .. } = self.entry.kind else {
            return false;
        };
        let then = FileState {
            inode: self.entry.inode,
            len: content.len,
            modified: self.entry.modified,
            changed: self.entry.changed,
        };
        self.medium.state().is_ok_and(|now| now == then)
    }

    /// Makes an error about this file.
    pub fn error(&self, operation: &'static str, source: io::Error, tree: &FileTree) -> PathError {
        PathError::new(operation, tree.on_disk(&self.path), source)
    }
}

/// Directories from the top to the one that was used last. See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Opened {
    way: Vec<(u32, Arc<Directory>)>,
    entries: Option<(u32, Arc<Vec<Entry>>)>,
}

impl Opened {
    /// Returns the entries of a directory in the snapshot.
    pub fn entries(
        &mut self,
        reader: &Reader,
        tree: &FileTree,
        index: u32,
    ) -> Result<Arc<Vec<Entry>>> {
        if let Some((_, entries)) = self.entries.as_ref().filter(|(known, _)| *known == index) {
            return Ok(Arc::clone(entries));
        }
        let content = tree.directory(index).map(|directory| directory.content);
        let entries = match content {
            Some(content) => Arc::new(reader.directory(&content)?),
            None => Arc::default(),
        };
        self.entries = Some((index, Arc::clone(&entries)));
        Ok(entries)
    }

    /// Opens a directory.
    pub fn directory(&mut self, tree: &FileTree, index: u32) -> Place<Arc<Directory>> {
        let way = tree.way_to(index);
        let pairs = self.way.iter().zip(&way);
        let common = pairs.take_while(|((known, _), index)| known == *index);
        self.way.truncate(common.count());
        for index in way.into_iter().skip(self.way.len()) {
            let name = tree.directory(index).map(|directory| &directory.name);
            let opened = match (self.way.last(), name) {
                (Some((_, parent)), Some(name)) => match CString::new(name.clone()) {
                    Ok(name) => parent.open_child(&name),
                    Err(_) => return Place::Deleted,
                },
                _ => Directory::open(tree.top()),
            };
            match opened {
                Ok(directory) => self.way.push((index, Arc::new(directory))),
                Err(e) if is_other(&e) => return Place::Deleted,
                Err(e) => return Place::Failed(e),
            }
        }
        match self.way.last() {
            Some((_, directory)) => Place::There(Arc::clone(directory)),
            None => Place::Deleted,
        }
    }

    /// Opens a file, if it is unchanged since the snapshot.
    pub fn file(
        &mut self,
        reader: &Reader,
        tree: &FileTree,
        (number, directory, place): (u64, u32, usize),
    ) -> Result<Place<OpenedFile>> {
        let entries = self.entries(reader, tree, directory)?;
        let Some(entry) = entries.get(place) else {
            return Ok(Place::Deleted);
        };
        let parent = match self.directory(tree, directory) {
            Place::There(parent) => parent,
            Place::Deleted => return Ok(Place::Deleted),
            Place::Changed => return Ok(Place::Changed),
            Place::Failed(e) => return Ok(Place::Failed(e)),
        };
        let Ok(name) = CString::new(entry.name.clone()) else {
            return Ok(Place::Deleted);
        };
        let found = match parent.stat(&name) {
            Ok(found) => found,
            Err(e) if is_other(&e) => return Ok(Place::Deleted),
            Err(e) => return Ok(Place::Failed(e)),
        };
        if !matches!(found.entry.kind, EntryKind::File { .. }) {
            return Ok(Place::Deleted);
        }
        if !found.unchanged_since(entry, Sameness::ALL) {
            return Ok(Place::Changed);
        }
        let path = join(&tree.path_of(directory), &entry.name);
        let failed = |e| PathError::new("open", tree.on_disk(&path), e);
        let opened = parent.open_file(&name).and_then(|file| {
            let file = file.file().try_clone().map_err(failed)?;
            Medium::of(file).map_err(failed)
        });
        let medium = match opened {
            Ok(medium) => medium,
            Err(e) if is_other(&e) => return Ok(Place::Deleted),
            Err(e) => return Ok(Place::Failed(e)),
        };
        let opened = OpenedFile {
            number,
            entry: entry.clone(),
            medium,
            path,
        };
        // Another file may have taken the name meanwhile.
        Ok(match opened.is_unchanged() {
            true => Place::There(opened),
            false => Place::Changed,
        })
    }
}

/// Returns true if the name does not exist, or is of another kind.
fn is_other(error: &PathError) -> bool {
    /// `ELOOP`: a link, which is not followed.
    const LINK: i32 = 40;
    use io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.source.kind(), NotFound | NotADirectory)
        || error.source.raw_os_error() == Some(LINK)
}
