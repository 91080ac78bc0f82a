//! Removes names from a restored directory that the snapshot does not have. `restore --delete`
//! calls this.
//!
//! Invariant: every name is listed and removed through the handle of its own directory, so swapping
//! directories or links meanwhile does not redirect a removal. Links are removed, never followed.
//! Mounts below are not entered. Depth costs memory, neither stack nor handles.

use super::{DIRECTORY, TargetDirectory};
use crate::filesystem::listing::names_in;
use crate::filesystem::{PathError, as_path, join};
use rustix::fs::{AtFlags, Mode, ResolveFlags, Stat};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Maximum number of levels whose directories stay open. Deeper trees reopen upper directories from
/// below, and these must still be the same.
const OPEN_LEVELS_MAX: usize = 64;

/// A directory that is being emptied.
struct Level {
    /// Its name in the directory above.
    name: CString,
    /// Device and inode.
    identity: (u64, u64),
    /// `None` while it is not among the last ones.
    fd: Option<OwnedFd>,
    names: std::vec::IntoIter<CString>,
}

impl Level {
    /// Opens and lists the directory `name` in `above`, unless something is mounted there.
    fn enter(above: BorrowedFd<'_>, name: CString) -> io::Result<Self> {
        let fd = open_on_device(above, &name)?;
        let identity = identity(&rustix::fs::fstat(&fd)?);
        let names = names_in(fd.as_fd())?.into_iter();
        Ok(Self {
            name,
            identity,
            fd: Some(fd),
            names,
        })
    }

    fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        let fd = self.fd.as_ref().map(AsFd::as_fd);
        fd.ok_or_else(|| Errno::BADF.into())
    }
}

impl TargetDirectory {
    /// All names in it, sorted by bytes.
    pub fn names(&self) -> Result<Vec<CString>, PathError> {
        names_in(self.fd.as_fd()).map_err(|e| PathError::new("list", self.path(), e))
    }

    /// Removes `name` with everything in it. `step` is called before each system call that removes
    /// something; its error ends the removal.
    pub fn remove_all(
        &self,
        name: &CStr,
        step: &mut dyn FnMut() -> io::Result<()>,
    ) -> Result<(), PathError> {
        let mut levels = Vec::new();
        self.remove_levels(name, &mut levels, step).map_err(|e| {
            let top = self.path_of(name);
            let below = levels.iter().skip(1).fold(top, |path, level: &Level| {
                let name = level.name.to_bytes();
                as_path(&join(path.as_os_str().as_encoded_bytes(), name)).to_owned()
            });
            PathError::new("remove", below, e)
        })
    }

    fn remove_levels(
        &self,
        name: &CStr,
        levels: &mut Vec<Level>,
        step: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        step()?;
        if unlinked(self.fd.as_fd(), name)? {
            return Ok(());
        }
        levels.push(Level::enter(self.fd.as_fd(), name.to_owned())?);
        while let Some(level) = levels.last_mut() {
            let next = level.names.next();
            step()?;
            match next {
                Some(name) => {
                    let level = levels.last().ok_or(Errno::BADF)?;
                    if !unlinked(level.fd()?, &name)? {
                        let below = Level::enter(level.fd()?, name)?;
                        levels.push(below);
                        let closed = levels.len().checked_sub(OPEN_LEVELS_MAX + 1);
                        if let Some(level) = closed.and_then(|n| levels.get_mut(n)) {
                            level.fd = None;
                        }
                    }
                }
                None => self.leave(levels)?,
            }
        }
        Ok(())
    }

    /// Removes the last level, which is empty.
    fn leave(&self, levels: &mut Vec<Level>) -> io::Result<()> {
        let Some(done) = levels.pop() else {
            return Ok(());
        };
        let above = match levels.last_mut() {
            None => self.fd.as_fd(),
            Some(above) => {
                if above.fd.is_none() {
                    above.fd = Some(reopened(done.fd()?, above.identity)?);
                }
                above.fd()?
            }
        };
        match rustix::fs::unlinkat(above, &done.name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}

/// Removes a name. Returns false if it is a directory.
fn unlinked(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<bool> {
    match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        // Another process has removed it already.
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::ISDIR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// Opens a directory on the same mount.
fn open_on_device(above: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let mounted = || {
        let name = name.to_string_lossy();
        io::Error::other(format!("a file system is mounted at {name}: it stays"))
    };
    match rustix::fs::openat2(above, name, DIRECTORY, Mode::empty(), resolve) {
        Err(Errno::XDEV) => Err(mounted()),
        // Kernels before 5.6, and sandboxes that do not know the call: only a mount of another
        // device is detected.
        Err(Errno::NOSYS | Errno::PERM) => {
            let fd = rustix::fs::openat(above, name, DIRECTORY, Mode::empty())?;
            let devices = (rustix::fs::fstat(above)?, rustix::fs::fstat(&fd)?);
            match devices.0.st_dev == devices.1.st_dev {
                true => Ok(fd),
                false => Err(mounted()),
            }
        }
        opened => Ok(opened?),
    }
}

/// Reopens the directory above an open one, if it is still the same.
fn reopened(below: BorrowedFd<'_>, expected: (u64, u64)) -> io::Result<OwnedFd> {
    let fd = rustix::fs::openat(below, c"..", DIRECTORY, Mode::empty())?;
    match identity(&rustix::fs::fstat(&fd)?) == expected {
        true => Ok(fd),
        false => Err(io::Error::other("it was moved during the removal")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    fn go_on() -> io::Result<()> {
        Ok(())
    }

    #[test]
    fn links_and_files_and_trees_go() {
        let top = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("victim"), b"v").unwrap();
        let path = |name: &str| top.path().join(name);
        fs::create_dir_all(path("d/e/f")).unwrap();
        fs::write(path("d/e/file"), b"").unwrap();
        symlink(outside.path(), path("d/link")).unwrap();
        symlink(outside.path(), path("link")).unwrap();
        let target = TargetDirectory::create_top(top.path()).unwrap();
        for name in [c"d", c"link", c"not there"] {
            target.remove_all(name, &mut go_on).unwrap();
        }
        assert_eq!(target.names().unwrap(), Vec::<CString>::new());
        assert!(outside.path().join("victim").exists());
    }

    /// A listed directory is swapped for a link to a victim before anything is removed.
    #[test]
    fn a_directory_that_was_swapped_after_it_was_listed() {
        let top = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let names = ["d/e/one", "d/e/two", "d/e/f/three"];
        for below in [top.path(), outside.path()] {
            fs::create_dir_all(below.join("d/e/f")).unwrap();
            names
                .iter()
                .for_each(|name| fs::write(below.join(name), b"").unwrap());
        }
        let swap = |name: &str| {
            let moved = top.path().join(format!("moved-{}", name.replace('/', "-")));
            fs::rename(top.path().join(name), moved).unwrap();
            symlink(outside.path().join(name), top.path().join(name)).unwrap();
        };
        let target = TargetDirectory::create_top(top.path()).unwrap();
        // Step 1: before anything; 2: `d` is listed; 3: `e` is listed too.
        for (at, name) in [(2, "d"), (3, "d/e")] {
            let mut step = 0;
            let removed = target.remove_all(c"d", &mut || {
                step += 1;
                if step == at {
                    swap(name);
                }
                Ok(())
            });
            assert!(removed.is_err(), "{name}: what was listed is elsewhere");
            assert!(names.iter().all(|name| outside.path().join(name).exists()));
            fs::remove_file(top.path().join("d")).unwrap_or_else(|_| {
                fs::remove_file(top.path().join("d/e")).unwrap();
            });
            let _ = fs::remove_dir_all(top.path().join("d"));
            fs::create_dir_all(top.path().join("d/e/f")).unwrap();
            names
                .iter()
                .for_each(|name| fs::write(top.path().join(name), b"").unwrap());
        }
    }

    fn nested(top: &Path, levels: usize) {
        let mut at = rustix::fs::open(top, DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..levels {
            rustix::fs::mkdirat(&at, c"d", Mode::RWXU).unwrap();
            rustix::fs::mkdirat(&at, c"e", Mode::RWXU).unwrap();
            at = rustix::fs::openat(&at, c"d", DIRECTORY, Mode::empty()).unwrap();
        }
    }

    #[test]
    fn depth_overflows_nothing() {
        let top = tempfile::tempdir().unwrap();
        nested(top.path(), 5000);
        let target = TargetDirectory::create_top(top.path()).unwrap();
        target.remove_all(c"d", &mut go_on).unwrap();
        assert_eq!(target.names().unwrap(), [c"e".to_owned()]);
    }

    #[test]
    fn a_deep_directory_that_moved_ends_it() {
        let top = tempfile::tempdir().unwrap();
        nested(top.path(), OPEN_LEVELS_MAX + 10);
        let target = TargetDirectory::create_top(top.path()).unwrap();
        let aside = top.path().join("aside");
        fs::create_dir(&aside).unwrap();
        fs::write(aside.join("e"), b"").unwrap();
        let mut step = 0;
        let removed = target.remove_all(c"d", &mut || {
            step += 1;
            // All levels are entered: the third one is moved away with its contents.
            if step == OPEN_LEVELS_MAX + 11 {
                fs::rename(top.path().join("d/d/d"), aside.join("d")).unwrap();
            }
            Ok(())
        });
        assert!(removed.is_err());
        assert!(aside.join("e").exists());
        assert!(top.path().join("d/d/e").exists());
    }

    #[test]
    fn the_wish_to_stop_is_heard() {
        let top = tempfile::tempdir().unwrap();
        nested(top.path(), 3);
        let target = TargetDirectory::create_top(top.path()).unwrap();
        let stop = || Err(io::Error::other("stop"));
        assert!(target.remove_all(c"d", &mut { stop }).is_err());
        assert!(top.path().join("d").exists());
    }
}
