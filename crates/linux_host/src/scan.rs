//! Walks the regular files of a tree. `watch` takes its snapshots with this, `quintet host cached`
//! its table; `host defrag run` takes file by file.
//!
//! Invariant: the walk stays on one mount, follows no link, and reads no file. Subvolumes of btrfs
//! belong to the mount.

use crate::identity::open;
use crate::mounts::mount_id;
use std::cmp::Reverse;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
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
    let mut walker = Walker::new(top)?;
    walker.visit_all(visit);
    Ok(walker.walked)
}

/// The directories of a tree, and their times of change when their names were read.
#[derive(Debug, Default)]
pub(crate) struct Directories(Vec<(PathBuf, Changed)>);

/// Seconds and nanoseconds; `None` if the directory cannot be asked.
type Changed = Option<(i64, i64)>;

impl Directories {
    /// Visits the files as [`walk`] does, and returns the directories.
    pub fn of_walk(
        top: &Path,
        visit: &mut dyn FnMut(&Found<'_>) -> io::Result<()>,
    ) -> io::Result<(Walked, Self)> {
        let mut walker = Walker::new(top)?;
        walker.seen = Some(Self::default());
        walker.visit_all(visit);
        Ok((walker.walked, walker.seen.unwrap_or_default()))
    }

    /// Returns true if a name may have been added or removed since. Kernels before 6.13 keep times
    /// in steps of a few milliseconds: of two changes in one step the second is not noticed.
    pub fn have_changed(&self) -> bool {
        self.0.iter().any(|(path, then)| changed(path) != *then)
    }
}

fn changed(directory: &Path) -> Changed {
    let metadata = fs::symlink_metadata(directory).ok()?;
    Some((metadata.mtime(), metadata.mtime_nsec()))
}

/// A regular file of the tree, for callers that keep it.
#[derive(Debug)]
pub struct WalkedFile {
    /// Its path, below the top as given.
    pub path: PathBuf,
    /// The open file.
    pub file: File,
    /// Its length.
    pub bytes: u64,
}

/// A walk, file by file. The caller notes each file with [`Walker::note`].
#[derive(Debug)]
pub struct Walker {
    mount: u64,
    /// The next name is at the end, of both.
    directories: Vec<PathBuf>,
    files: Vec<PathBuf>,
    walked: Walked,
    /// Directories that were entered, for callers that need them.
    seen: Option<Directories>,
}

impl Walker {
    /// Begins at a directory or file.
    pub fn new(top: &Path) -> io::Result<Self> {
        let mount = mount_id(top)?;
        let is_file = fs::symlink_metadata(top)?.file_type().is_file();
        let (mut directories, mut files) = (Vec::new(), Vec::new());
        match is_file {
            true => files.push(top.to_owned()),
            false => directories.push(top.to_owned()),
        }
        Ok(Self {
            mount,
            directories,
            files,
            walked: Walked::default(),
            seen: None,
        })
    }

    fn visit_all(&mut self, visit: &mut dyn FnMut(&Found<'_>) -> io::Result<()>) {
        while let Some(walked) = self.next_file() {
            let found = Found {
                path: &walked.path,
                file: &walked.file,
                bytes: walked.bytes,
            };
            let seen = visit(&found);
            self.note(&walked.path, seen);
        }
    }

    /// Returns the next file; `None` at the end.
    pub fn next_file(&mut self) -> Option<WalkedFile> {
        loop {
            while let Some(path) = self.files.pop() {
                match regular(&path) {
                    Ok(Some((file, bytes))) => return Some(WalkedFile { path, file, bytes }),
                    Ok(None) => {}
                    Err(e) => self.note(&path, Err(e)),
                }
            }
            let directory = self.directories.pop()?;
            if let Err(e) = self.enter(&directory) {
                self.note(&directory, Err(e));
            }
        }
    }

    /// Records whether a file could be asked about.
    pub fn note(&mut self, path: &Path, seen: io::Result<()>) {
        match seen {
            Ok(()) => self.walked.files += 1,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => self.walked.failed.push((path.to_owned(), e)),
        }
    }

    /// Returns what was noted so far.
    pub fn walked(&self) -> &Walked {
        &self.walked
    }

    /// Ends the walk, and returns what was noted.
    pub fn into_walked(self) -> Walked {
        self.walked
    }

    /// Reads the names of a directory, unless another mount is there.
    fn enter(&mut self, directory: &Path) -> io::Result<()> {
        if mount_id(directory)? != self.mount {
            return Ok(());
        }
        if let Some(Directories(seen)) = &mut self.seen {
            // Before the names are read: a name that comes meanwhile is a change.
            seen.push((directory.to_owned(), changed(directory)));
        }
        let mut names = fs::read_dir(directory)?.collect::<io::Result<Vec<_>>>()?;
        names.sort_by_key(|entry| Reverse(entry.file_name()));
        for entry in names {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.directories.push(entry.path()),
                Ok(kind) if kind.is_file() => self.files.push(entry.path()),
                Ok(_) => {}
                Err(e) => self.note(&entry.path(), Err(e)),
            }
        }
        Ok(())
    }
}

/// Opens a file; `None` if it is no regular one any more.
fn regular(path: &Path) -> io::Result<Option<(File, u64)>> {
    let file = open(path)?;
    let metadata = file.metadata()?;
    Ok(metadata.is_file().then_some((file, metadata.len())))
}
