//! Walks the regular files of a tree. `watch` takes its snapshots with this, `quintet host cached`
//! its table; `host defrag run` takes file by file.
//!
//! Invariant: the walk stays on one mount, follows no link below its top, and reads no file.
//! Subvolumes of btrfs belong to the mount. Names are reached through open directories, so no path
//! is too long; a directory stays open until the walk has left it.

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, StatxFlags, openat, statx};
use std::cmp::Reverse;
use std::collections::HashSet;
use std::ffi::{CStr, CString, OsStr};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Devices and pipes are not waited for; links are refused.
const ASKING: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOCTTY);

/// A regular file of the tree, open.
pub struct FoundFile<'a> {
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
pub fn walk(
    top: &Path,
    visit: &mut dyn FnMut(&FoundFile<'_>) -> io::Result<()>,
) -> io::Result<Walked> {
    let mut walker = Walker::new(top)?;
    walker.visit_all(visit);
    Ok(walker.walked)
}

/// The same, but a file with several names is visited once, under the first.
pub fn walk_once(
    top: &Path,
    visit: &mut dyn FnMut(&FoundFile<'_>) -> io::Result<()>,
) -> io::Result<Walked> {
    let mut walker = Walker::once(top)?;
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
        visit: &mut dyn FnMut(&FoundFile<'_>) -> io::Result<()>,
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
    directories: Vec<Place>,
    files: Vec<Place>,
    walked: Walked,
    /// Directories that were entered, for callers that need them.
    seen: Option<Directories>,
    /// Device and inode of files with several names, for callers that want each once.
    once: Option<HashSet<(u64, u64)>>,
}

/// A name that is still to be visited.
#[derive(Debug)]
struct Place {
    /// Its directory; `None` for the top, which is open.
    above: Option<Arc<OwnedFd>>,
    name: CString,
    path: PathBuf,
}

impl Place {
    /// Opens it, only to ask about it.
    fn open(&self, more: OFlags) -> io::Result<OwnedFd> {
        let above = self.above.as_ref().map_or(CWD, |above| above.as_fd());
        // A top is what the user named: links to it are followed.
        let flags = match self.above {
            Some(_) => ASKING,
            None => ASKING.difference(OFlags::NOFOLLOW),
        };
        Ok(openat(above, &self.name, flags | more, Mode::empty())?)
    }
}

impl Walker {
    /// Begins at a directory or file. Refuses anything else.
    pub fn new(top: &Path) -> io::Result<Self> {
        let place = Place {
            above: None,
            name: CString::new(top.as_os_str().as_bytes())?,
            path: top.to_owned(),
        };
        // Opening a device may do something to it.
        let kind = fs::metadata(top)?.file_type();
        let (mut directories, mut files) = (Vec::new(), Vec::new());
        if !kind.is_dir() && !kind.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is neither a directory nor a regular file; give one of these",
            ));
        }
        let mount = mount_of(place.open(OFlags::empty())?.as_fd())?;
        match kind.is_file() {
            true => files.push(place),
            false => directories.push(place),
        }
        Ok(Self {
            mount,
            directories,
            files,
            walked: Walked::default(),
            seen: None,
            once: None,
        })
    }

    /// The same, but a file with several names is visited once, under the first.
    pub fn once(top: &Path) -> io::Result<Self> {
        let mut walker = Self::new(top)?;
        walker.once = Some(HashSet::new());
        Ok(walker)
    }

    fn visit_all(&mut self, visit: &mut dyn FnMut(&FoundFile<'_>) -> io::Result<()>) {
        while let Some(walked) = self.next_file() {
            let found = FoundFile {
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
            while let Some(place) = self.files.pop() {
                match self.regular(&place) {
                    Ok(Some((file, bytes))) => {
                        let path = place.path;
                        return Some(WalkedFile { path, file, bytes });
                    }
                    Ok(None) => {}
                    Err(e) => self.note(&place.path, Err(e)),
                }
            }
            let directory = self.directories.pop()?;
            if let Err(e) = self.enter(&directory) {
                self.note(&directory.path, Err(e));
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
    fn enter(&mut self, place: &Place) -> io::Result<()> {
        let directory = Arc::new(place.open(OFlags::DIRECTORY)?);
        if mount_of(directory.as_fd())? != self.mount {
            return Ok(());
        }
        if let Some(Directories(seen)) = &mut self.seen {
            // Before the names are read: a name that comes meanwhile is a change.
            seen.push((place.path.clone(), changed(&place.path)));
        }
        let mut names = Vec::new();
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if name != c"." && name != c".." {
                names.push((name.to_owned(), entry.file_type()));
            }
        }
        names.sort_unstable_by(|(a, _), (b, _)| Reverse(a).cmp(&Reverse(b)));
        for (name, kind) in names {
            let path = place.path.join(OsStr::from_bytes(name.to_bytes()));
            let kind = match kind {
                // Some file systems do not say.
                FileType::Unknown => match kind_of(directory.as_fd(), &name) {
                    Ok(kind) => kind,
                    Err(e) => {
                        self.note(&path, Err(e));
                        continue;
                    }
                },
                kind => kind,
            };
            let above = Some(Arc::clone(&directory));
            let found = Place { above, name, path };
            match kind {
                FileType::Directory => self.directories.push(found),
                FileType::RegularFile => self.files.push(found),
                _ => {}
            }
        }
        Ok(())
    }

    /// Opens a file; `None` if it is no regular one any more, or was visited under another name.
    fn regular(&mut self, place: &Place) -> io::Result<Option<(File, u64)>> {
        let file = File::from(place.open(OFlags::empty())?);
        let metadata = file.metadata()?;
        let is_first = match &mut self.once {
            Some(seen) if metadata.nlink() > 1 => seen.insert((metadata.dev(), metadata.ino())),
            _ => true,
        };
        Ok((metadata.is_file() && is_first).then_some((file, metadata.len())))
    }
}

/// Returns the number of the mount that an open file is on.
fn mount_of(file: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?.stx_mnt_id)
}

fn kind_of(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<FileType> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let found = statx(directory, name, flags, StatxFlags::TYPE)?;
    Ok(FileType::from_raw_mode(found.stx_mode.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::mkdirat;

    #[test]
    fn a_file_with_two_names_is_visited_once_or_twice() {
        let top = tempfile::tempdir_in(".").unwrap();
        fs::write(top.path().join("a"), "x").unwrap();
        fs::hard_link(top.path().join("a"), top.path().join("b")).unwrap();
        let mut visit = |_: &FoundFile<'_>| Ok(());
        assert_eq!(walk(top.path(), &mut visit).unwrap().files, 2);
        assert_eq!(walk_once(top.path(), &mut visit).unwrap().files, 1);
        let link = top.path().join("link");
        std::os::unix::fs::symlink("a", &link).unwrap();
        assert_eq!(walk(&link, &mut visit).unwrap().files, 1);
    }

    #[test]
    fn a_path_may_be_longer_than_the_system_takes() {
        let top = tempfile::tempdir_in(".").unwrap();
        let name = CString::new("d".repeat(200)).unwrap();
        let mut at = OwnedFd::from(File::open(top.path()).unwrap());
        for _ in 0..30 {
            mkdirat(&at, &name, Mode::RWXU).unwrap();
            at = openat(&at, &name, ASKING, Mode::empty()).unwrap();
        }
        let new = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
        openat(&at, c"f", new, Mode::RUSR).unwrap();
        let mut found = Vec::new();
        let walked = walk(top.path(), &mut |file| {
            found.push(file.path.as_os_str().len());
            Ok(())
        });
        let walked = walked.unwrap();
        assert_eq!((walked.files, walked.failed.len()), (1, 0));
        assert!(found.iter().all(|len| *len > 6000), "{found:?}");
    }

    /// A walk by root must not be led to files elsewhere by the owner of a directory.
    #[test]
    fn a_directory_that_becomes_a_link_is_not_followed() {
        let top = tempfile::tempdir_in(".").unwrap();
        let tree = top.path().join("tree");
        for directory in ["tree/a", "tree/b/deep", "elsewhere/deep"] {
            let directory = top.path().join(directory);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("f"), "x").unwrap();
        }
        let elsewhere = top.path().join("elsewhere");
        let mut walker = Walker::new(&tree).unwrap();
        assert_eq!(walker.next_file().unwrap().path, tree.join("a/f"));
        let swap = |name: &str| {
            fs::rename(tree.join(name), tree.join("aside")).unwrap();
            std::os::unix::fs::symlink(&elsewhere, tree.join(name)).unwrap();
        };
        // Its name has been read, and it has not been opened.
        swap("b");
        assert!(walker.next_file().is_none());
        assert_eq!(walker.walked().failed[0].0, tree.join("b"));
        fs::remove_file(tree.join("b")).unwrap();
        fs::rename(tree.join("aside"), tree.join("b")).unwrap();
        let mut walker = Walker::new(&tree).unwrap();
        assert_eq!(walker.next_file().unwrap().path, tree.join("a/f"));
        fs::write(tree.join("b/f"), "x").unwrap();
        assert_eq!(walker.next_file().unwrap().path, tree.join("b/f"));
        // It is open: the walk goes on in the directory that had the name.
        swap("b");
        let deep = walker.next_file().unwrap();
        let own = fs::metadata(tree.join("aside/deep/f")).unwrap().ino();
        assert_eq!(deep.file.metadata().unwrap().ino(), own);
    }

    #[test]
    fn what_is_neither_directory_nor_file_is_refused() {
        let refused = Walker::new(Path::new("/dev/null")).unwrap_err();
        assert!(refused.to_string().contains("neither a directory"));
    }
}
