//! Identity of files, from the kernel's numbers to paths and back. `watch` and the program call
//! this.
//!
//! Invariant: a path is only returned after a look at the file that it names now. Renamed and
//! deleted files are found again, or not at all; never under a name that another file took.

use crate::sys;
use machine::Mount;
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file, by the numbers that the kernel's events carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// Device of the superblock ([`Mount::device`]).
    pub device: u32,
    /// Subvolume, on btrfs; else 0.
    pub root: u64,
    /// Inode.
    pub inode: u64,
    /// Distinguishes files that had the same inode one after another; 0 on FUSE.
    pub generation: u32,
}

impl FileId {
    /// Asks the system for the identity of an open file on a mount.
    pub fn of(file: &File, mount: &Mount) -> io::Result<Self> {
        let root = match mount.kind == "btrfs" {
            true => sys::btrfs_root(file)?,
            false => 0,
        };
        Ok(Self {
            device: mount.device,
            root,
            inode: file.metadata()?.ino(),
            // The programs leave it out for FUSE, too.
            generation: match mount.is_fuse() {
                true => 0,
                false => sys::generation(file),
            },
        })
    }

    /// Opens the file that a path names, if it is this one: only to ask about it.
    pub fn open_at(self, path: &Path, mount: &Mount) -> Option<File> {
        let file = open(path).ok()?;
        (Self::of(&file, mount).ok()? == self).then_some(file)
    }
}

/// Opens a file only to ask about it. Devices and pipes are not waited for; links are refused.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags | OFlags::NOCTTY, Mode::empty())?.into())
}

/// The paths under which files were seen.
#[derive(Debug, Default)]
pub struct Identities {
    paths: HashMap<FileId, Vec<PathBuf>>,
}

impl Identities {
    /// Remembers a path of a file. A file with hard links has several.
    pub fn insert(&mut self, id: FileId, path: &Path) {
        let paths = self.paths.entry(id).or_default();
        if !paths.iter().any(|known| known == path) {
            paths.push(path.to_owned());
        }
    }

    /// Returns a path that names the file now. Forgets those that do not any more.
    pub fn path(&mut self, id: FileId, mount: &Mount) -> Option<PathBuf> {
        let paths = self.paths.get_mut(&id)?;
        let names_it = |path: &PathBuf| {
            let found = open(path).and_then(|file| FileId::of(&file, mount));
            found.is_ok_and(|found| found == id)
        };
        while let Some(path) = paths.first() {
            if names_it(path) {
                return Some(path.clone());
            }
            paths.remove(0);
        }
        self.paths.remove(&id);
        None
    }

    /// Forgets all paths.
    pub fn clear(&mut self) {
        self.paths.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn renames_links_and_deletions() {
        let top = tempfile::tempdir_in(".").unwrap();
        let mount = Mount::of(top.path()).unwrap();
        let name = |name: &str| top.path().join(name);
        fs::write(name("a"), "x").unwrap();
        let id = FileId::of(&open(&name("a")).unwrap(), &mount).unwrap();
        let mut identities = Identities::default();
        identities.insert(id, &name("a"));
        assert_eq!(identities.path(id, &mount), Some(name("a")));
        // A second name stays when the first is removed.
        fs::hard_link(name("a"), name("b")).unwrap();
        identities.insert(id, &name("b"));
        fs::remove_file(name("a")).unwrap();
        assert_eq!(identities.path(id, &mount), Some(name("b")));
        // A name that another file took is not returned.
        fs::rename(name("b"), name("c")).unwrap();
        fs::write(name("b"), "y").unwrap();
        assert_eq!(identities.path(id, &mount), None);
        identities.insert(id, &name("c"));
        assert_eq!(identities.path(id, &mount), Some(name("c")));
        fs::remove_file(name("c")).unwrap();
        assert_eq!(identities.path(id, &mount), None);
    }
}
