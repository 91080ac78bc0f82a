//! Access to source and target file systems: captures a tree, and applies it again. Backup and
//! restore call this.
//!
//! Invariant: symbolic links are never followed below a top directory. A failure names its path and
//! stops only that file.

pub mod apply;
pub mod cached_first;
pub mod capture;
mod captured;
pub mod data_map;
pub mod in_memory;
mod listing;
pub mod metadata;
pub mod open_file;
pub mod overwrite;
pub mod paced;
pub mod target_file;
pub mod xattrs;

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A failure on one path. Backup and restore report it as a warning and continue (exit code 3).
#[derive(Debug, thiserror::Error)]
#[error("{}", text(operation, path.display(), source))]
pub struct PathError {
    /// The operation, a verb ("open", "list").
    pub operation: &'static str,
    /// The path.
    pub path: PathBuf,
    /// The system's error.
    pub source: io::Error,
}

impl PathError {
    /// Creates one from an error of the system.
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

    /// Returns the message with another spelling of the path, for a terminal.
    pub fn text_with(&self, path: impl fmt::Display) -> String {
        text(self.operation, path, &self.source)
    }

    /// Returns true if the file was deleted between listing and access.
    pub fn is_gone(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }
}

fn text(operation: &str, path: impl fmt::Display, source: &io::Error) -> String {
    // "ask what is in memory of it" is the JSON's word.
    let operation = operation.strip_suffix(" it").unwrap_or(operation);
    let (of, reason) = (preposition(operation), units::reason(source));
    format!("cannot {operation}{of} {path}: {reason}")
}

/// Returns the preposition between an operation and its path, with the space in front.
fn preposition(operation: &str) -> &'static str {
    const ON_PROPERTIES: [&str; 10] = [
        "keep set-user-ID bits",
        "list attributes",
        "read attribute",
        "read extents",
        "remove attribute",
        "set attribute",
        "set length",
        "set mode",
        "set owner",
        "set times",
    ];
    match operation {
        "find holes" => " in",
        _ if ON_PROPERTIES.contains(&operation) => " of",
        _ => "",
    }
}

/// Returns `directory/name` as bytes.
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
