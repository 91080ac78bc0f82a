//! Walks the regular files of a tree. `watch` takes its snapshots with this, `quintet host cached`
//! its table.
//!
//! Invariant: the walk stays on one mount, follows no link, and reads no file. Subvolumes of btrfs
//! belong to the mount.

use crate::identity::open;
use crate::mounts::mount_id;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// A regular file of the tree, open.
pub struct Found<'a> {
    /// Its path, below the top as given.
    pub path: &'a Path,
    /// The open file.
    pub file: &'a File,
    /// Its length.
    pub bytes: u64,
}

/// Result of a walk.
#[derive(Debug, Default)]
pub struct Walked {
    /// Files that were visited.
    pub files: u64,
    /// Directories and files that could not be opened or asked about, and why.
    pub failed: Vec<(PathBuf, io::Error)>,
}

/// Visits the regular files at and below `top`, in the order of their names. A file that is deleted
/// meanwhile is passed over.
pub fn walk(top: &Path, visit: &mut dyn FnMut(&Found<'_>) -> io::Result<()>) -> io::Result<Walked> {
    let mount = mount_id(top)?;
    let mut walked = Walked::default();
    let kind = fs::symlink_metadata(top)?.file_type();
    if kind.is_file() {
        let seen = one(top, visit);
        note(&mut walked, top, seen);
        return Ok(walked);
    }
    // The next name is at the end.
    let mut waiting = vec![top.to_owned()];
    while let Some(path) = waiting.pop() {
        let entries = match mount_id(&path) {
            Ok(id) if id != mount => continue,
            Ok(_) => fs::read_dir(&path),
            Err(e) => Err(e),
        };
        let mut names = match entries.and_then(Iterator::collect::<io::Result<Vec<_>>>) {
            Ok(names) => names,
            Err(e) => {
                note(&mut walked, &path, Err(e));
                continue;
            }
        };
        names.sort_by_key(fs::DirEntry::file_name);
        let mut directories = Vec::new();
        for entry in names {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => directories.push(entry.path()),
                Ok(kind) if kind.is_file() => {
                    let path = entry.path();
                    let seen = one(&path, visit);
                    note(&mut walked, &path, seen);
                }
                Ok(_) => {}
                Err(e) => note(&mut walked, &entry.path(), Err(e)),
            }
        }
        waiting.extend(directories.into_iter().rev());
    }
    Ok(walked)
}

fn one(path: &Path, visit: &mut dyn FnMut(&Found<'_>) -> io::Result<()>) -> io::Result<()> {
    let file = open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Ok(());
    }
    let (file, bytes) = (&file, metadata.len());
    visit(&Found { path, file, bytes })
}

fn note(walked: &mut Walked, path: &Path, seen: io::Result<()>) {
    match seen {
        Ok(()) => walked.files += 1,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => walked.failed.push((path.to_owned(), e)),
    }
}
