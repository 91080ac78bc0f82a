//! A failure on one path, in the words of every layer: `archive` and `host_scrub` report them, the
//! console prints them.
//!
//! Invariant: the message names the operation, the path and the cause, each once.

use crate::reason;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// A failure on one path. Backup and restore report it as a warning and continue (exit code 3).
#[derive(Debug)]
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
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text_with(self.path.display()))
    }
}

impl Error for PathError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}

fn text(operation: &str, path: impl fmt::Display, source: &io::Error) -> String {
    // "ask what is in memory of it" is the JSON's word.
    let operation = operation.strip_suffix(" it").unwrap_or(operation);
    let (of, reason) = (preposition(operation), reason(source));
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
