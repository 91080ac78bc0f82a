//! Makes paths absolute. Backups, and commands that look for a path in a snapshot, call this.
//!
//! Invariant: the result has no `.` or `..`. Symbolic links in it are kept as the user wrote them,
//! except for those before a `..`.

use std::io;
use std::path::{Component, Path, PathBuf};

/// Reason why a path cannot be made absolute.
#[derive(Debug, thiserror::Error)]
#[error("{}", path.display())]
pub struct AbsoluteError {
    path: PathBuf,
    source: io::Error,
}

impl AbsoluteError {
    fn new(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        Self { path, source }
    }
}

/// Makes a path absolute, without `.` and `..`.
pub fn absolute(path: &Path) -> Result<PathBuf, AbsoluteError> {
    let joined = std::path::absolute(path).map_err(|e| AbsoluteError::new(path, e))?;
    let mut out = PathBuf::new();
    for component in joined.components() {
        match component {
            // The target of a link has another parent than the link.
            Component::ParentDir => {
                out = out
                    .canonicalize()
                    .map_err(|e| AbsoluteError::new(&out, e))?;
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_paths() {
        assert_eq!(
            absolute(Path::new("/a/./b//c/")).unwrap(),
            Path::new("/a/b/c")
        );
        let here = std::env::current_dir().unwrap();
        assert_eq!(absolute(Path::new(".")).unwrap(), here);
        let top = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(top.path().join("real/deep")).unwrap();
        std::os::unix::fs::symlink("real/deep", top.path().join("link")).unwrap();
        let through = absolute(&top.path().join("link/../x")).unwrap();
        assert_eq!(through, top.path().canonicalize().unwrap().join("real/x"));
        assert!(absolute(&top.path().join("missing/../x")).is_err());
    }
}
