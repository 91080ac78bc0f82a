//! The door to source and target file systems: what a tree looks like, and making it look so again.
//!
//! Invariant: symbolic links are never followed below a top directory; a failure names its path and
//! stops nothing but the file it is about. The backup and restore drivers call this.

pub mod apply;
pub mod capture;
mod captured;
pub mod data_map;
mod listing;
pub mod metadata;
pub mod open_file;
pub mod overwrite;
pub mod target_file;
pub mod xattrs;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What could not be done with one path. Drivers turn it into a warning and go on (exit code 3).
#[derive(Debug, thiserror::Error)]
#[error("{}: {operation}: {source}", path.display())]
pub struct PathError {
    /// What was tried, a verb ("open", "list").
    pub operation: &'static str,
    /// On what.
    pub path: PathBuf,
    /// The system's words.
    pub source: io::Error,
}

impl PathError {
    /// From an error of the system.
    pub fn new(
        operation: &'static str,
        path: impl Into<PathBuf>,
        source: impl Into<io::Error>,
    ) -> Self {
        Self {
            operation,
            path: path.into(),
            source: source.into(),
        }
    }

    /// The file went away between being listed and being looked at.
    pub fn is_gone(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }
}

/// `directory/name` as bytes.
fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(directory.len() + name.len() + 2);
    path.extend_from_slice(directory);
    if !directory.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
