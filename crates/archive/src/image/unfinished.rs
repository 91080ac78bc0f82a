//! A file that gets its name only when it is complete. Export and dump write through this.
//!
//! Invariant: until [`UnfinishedFile::finish`] it has another name in the same directory, which
//! says what it is. Dropping it removes it. A killed process leaves that name and never the real
//! one.

use crate::filesystem::PathError;
use rustix::fs::RenameFlags;
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Maximum number of names to try.
const TRIES_MAX: u32 = 1000;

/// Reason why a file could not be created.
#[derive(Debug, thiserror::Error)]
pub enum UnfinishedError {
    /// A file of this type cannot be replaced atomically.
    #[error(
        "{} is not a regular file, and a failure would leave it half written; write to a regular \
         file and copy that, or serve the image over NBD and copy from there",
        .0.display()
    )]
    NotRegular(PathBuf),
    /// The name is taken, and is not to be replaced.
    #[error("{} exists; remove it or choose another name", .0.display())]
    Exists(PathBuf),
    /// The file system refused.
    #[error(transparent)]
    Path(#[from] PathError),
}

/// See the module's head.
pub struct UnfinishedFile {
    file: File,
    path: PathBuf,
    /// Its final name, links followed.
    name: PathBuf,
    replaces: bool,
    finished: bool,
}

impl UnfinishedFile {
    /// Creates the file that will be `path`. Fails if `path` exists, unless `replace` is set.
    /// Special files cannot be replaced at all.
    pub fn create(path: &Path, replace: bool) -> Result<Self, UnfinishedError> {
        let fail = |e: io::Error| PathError::new("create", path, e);
        let name = match path.metadata() {
            Ok(meta) if !meta.is_file() => {
                return Err(UnfinishedError::NotRegular(path.to_owned()));
            }
            Ok(_) if !replace => return Err(UnfinishedError::Exists(path.to_owned())),
            Ok(_) => path.canonicalize().map_err(fail)?,
            // A dangling link belongs to the user.
            Err(_) if path.symlink_metadata().is_ok() => {
                return Err(fail(io::ErrorKind::AlreadyExists.into()).into());
            }
            Err(_) => path.to_owned(),
        };
        let Some(last) = name.file_name() else {
            return Err(fail(io::ErrorKind::InvalidInput.into()).into());
        };
        for number in 0..TRIES_MAX {
            let mut unfinished = OsString::from(".");
            unfinished.push(last);
            let process = std::process::id();
            unfinished.push(format!(".quintet-unfinished-{process}-{number}"));
            let unfinished = name.with_file_name(unfinished);
            let mut options = OpenOptions::new();
            match options
                .read(true)
                .write(true)
                .create_new(true)
                .open(&unfinished)
            {
                Ok(file) => {
                    return Ok(Self {
                        file,
                        path: unfinished,
                        name,
                        replaces: replace,
                        finished: false,
                    });
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(fail(e).into()),
            }
        }
        Err(fail(io::ErrorKind::AlreadyExists.into()).into())
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Its present path: for programs that write it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames it to its name.
    pub fn finish(mut self) -> Result<(), PathError> {
        let named = match self.replaces {
            true => self.replace(),
            false => self.take_free_name(),
        };
        named.map_err(|e| PathError::new("create", &self.name, e))?;
        self.finished = true;
        Ok(())
    }

    /// The new file gets the mode of the replaced one, as if that had been overwritten.
    fn replace(&self) -> io::Result<()> {
        if let Ok(meta) = self.name.symlink_metadata() {
            let mode = meta.permissions().mode() & 0o777;
            let permissions = std::fs::Permissions::from_mode(mode);
            self.file.set_permissions(permissions)?;
        }
        std::fs::rename(&self.path, &self.name)
    }

    fn take_free_name(&self) -> io::Result<()> {
        let (from, to) = (&self.path, &self.name);
        let here = rustix::fs::CWD;
        match rustix::fs::renameat_with(here, from, here, to, RenameFlags::NOREPLACE) {
            // File systems without this operation.
            Err(Errno::INVAL | Errno::NOSYS) => {
                std::fs::hard_link(from, to)?;
                std::fs::remove_file(from)
            }
            renamed => Ok(renamed?),
        }
    }
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        if !self.finished {
            // The cause of the unfinished file is being reported already.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_name_only_for_what_is_complete() {
        let top = tempfile::tempdir().unwrap();
        let out = top.path().join("out");
        let names = || fs::read_dir(top.path()).unwrap().count();
        drop(UnfinishedFile::create(&out, false).unwrap());
        assert_eq!(names(), 0);
        let write = |replace, text: &str| {
            let file = UnfinishedFile::create(&out, replace)?;
            file.file().write_all(text.as_bytes()).unwrap();
            file.finish()?;
            Ok::<(), UnfinishedError>(())
        };
        write(false, "one").unwrap();
        assert!(write(false, "two").is_err());
        assert_eq!(fs::read(&out).unwrap(), b"one");
        fs::set_permissions(&out, fs::Permissions::from_mode(0o640)).unwrap();
        write(true, "three").unwrap();
        assert_eq!(fs::read(&out).unwrap(), b"three");
        let mode = fs::metadata(&out).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        drop(UnfinishedFile::create(&out, true).unwrap());
        assert_eq!(fs::read(&out).unwrap(), b"three");
        assert_eq!(names(), 1);
    }

    #[test]
    fn a_name_that_was_taken_meanwhile_is_not_replaced() {
        let top = tempfile::tempdir().unwrap();
        let out = top.path().join("out");
        let file = UnfinishedFile::create(&out, false).unwrap();
        fs::write(&out, b"theirs").unwrap();
        assert!(file.finish().is_err());
        assert_eq!(fs::read(&out).unwrap(), b"theirs");
        assert_eq!(fs::read_dir(top.path()).unwrap().count(), 1);
    }

    #[test]
    fn links_lead_to_the_file_and_what_is_no_file_is_refused() {
        let top = tempfile::tempdir().unwrap();
        let (out, link) = (top.path().join("out"), top.path().join("link"));
        fs::write(&out, b"old").unwrap();
        symlink("out", &link).unwrap();
        let file = UnfinishedFile::create(&link, true).unwrap();
        file.finish().unwrap();
        assert_eq!(fs::read(&out).unwrap(), b"");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        symlink("nowhere", top.path().join("dangling")).unwrap();
        for bad in [top.path().join("dangling"), "/dev/null".into(), "/".into()] {
            assert!(UnfinishedFile::create(&bad, true).is_err(), "{bad:?}");
        }
    }
}
