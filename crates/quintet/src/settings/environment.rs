//! Variables of the environment, as data.
//!
//! Invariant: an empty variable counts as not set; nothing else here or above asks the process.

use super::SettingError;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

/// Longest line of a file that holds a location or a secret.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// A copy of the environment.
#[derive(Clone, Debug, Default)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// The process's own.
    pub fn of_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// Of these pairs: for tests.
    pub fn of(pairs: &[(&str, &str)]) -> Self {
        let owned = pairs
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        Self(owned.collect())
    }

    /// Of these.
    pub fn from_pairs(pairs: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self(pairs.into_iter().collect())
    }

    /// All of them, empty ones too.
    pub fn all(&self) -> &BTreeMap<OsString, OsString> {
        &self.0
    }

    /// The value, if set and not empty.
    pub fn value(&self, name: &str) -> Option<&OsStr> {
        let value = self.0.get(OsStr::new(name))?;
        (!value.is_empty()).then_some(value.as_os_str())
    }

    /// The value as text; other bytes are refused.
    pub fn text(&self, name: &str) -> Result<Option<String>, SettingError> {
        match self.value(name).map(OsStr::to_str) {
            None => Ok(None),
            Some(Some(text)) => Ok(Some(text.to_owned())),
            Some(None) => Err(SettingError::new(name, "is not text")),
        }
    }
}

/// The first line of a file that `name` points at.
pub(super) fn first_line(name: &str, path: &Path) -> Result<OsString, SettingError> {
    first_line_of(name, &path.display(), std::fs::File::open(path))
}

/// ... of an open file; `place` is for the message.
pub(super) fn first_line_of(
    name: &str,
    place: &dyn std::fmt::Display,
    file: std::io::Result<File>,
) -> Result<OsString, SettingError> {
    let refuse = |e: &dyn std::fmt::Display| SettingError::new(name, format!("{place}: {e}"));
    let mut bytes = Vec::new();
    file.and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|e| refuse(&e))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(refuse(&"is too long"));
    }
    let line = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match line.is_empty() {
        true => Err(refuse(&"its first line is empty")),
        false => Ok(OsString::from_vec(line.to_vec())),
    }
}
