//! A copy of environment variables. Command contexts carry it.
//!
//! Invariant: an empty variable counts as unset. Commands read variables from such a copy, not from
//! the process: a server may run them for a client.

use crate::interrupt::Interrupted;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;

/// Variables that a command reads, wherever it runs, ...
const SENT_VARIABLES: [&str; 13] = [
    "COLUMNS", "HOME", "LANG", "LANGUAGE", "LOGNAME", "NO_COLOR", "PATH", "SHELL", "TERM",
    "TMPDIR", "TZ", "TZDIR", "USER",
];
/// ... and prefixes of further ones.
const SENT_PREFIXES: [&str; 4] = ["AWS_", "LC_", "QUINTET_", "XDG_"];

/// A copy of the environment.
#[derive(Clone, Debug, Default)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// Copies the environment of this process.
    pub fn of_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// Makes an environment of these pairs: for tests.
    pub fn of(pairs: &[(&str, &str)]) -> Self {
        let owned = pairs
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        Self(owned.collect())
    }

    /// Makes an environment of these pairs.
    pub fn from_pairs(pairs: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self(pairs.into_iter().collect())
    }

    /// Returns the variables for a server that runs a command for this process: those that this
    /// program and its libraries read. If the command runs the user's own programs, all variables.
    pub fn for_server(&self, runs_programs: bool) -> Vec<(OsString, OsString)> {
        let is_ours = |name: &OsStr| {
            let name = name.as_bytes();
            SENT_VARIABLES.iter().any(|known| known.as_bytes() == name)
                || SENT_PREFIXES.iter().any(|p| name.starts_with(p.as_bytes()))
        };
        let pairs = self.0.iter();
        let pairs = pairs.filter(|(name, _)| runs_programs || is_ours(name));
        pairs.map(|(n, v)| (n.clone(), v.clone())).collect()
    }

    /// Returns true if a variable names a command that prints a password.
    pub fn has_password_command(&self) -> bool {
        self.0.keys().any(|name| {
            let name = name.as_bytes();
            name.starts_with(b"QUINTET_") && name.ends_with(b"_COMMAND")
        })
    }

    /// Returns all variables, including empty ones.
    pub fn all(&self) -> &BTreeMap<OsString, OsString> {
        &self.0
    }

    /// Returns the value if it is set and not empty.
    pub fn value(&self, name: &str) -> Option<&OsStr> {
        let value = self.0.get(OsStr::new(name))?;
        (!value.is_empty()).then_some(value.as_os_str())
    }

    /// Returns the value as text. Fails if it is not UTF-8.
    pub fn text(&self, name: &str) -> Result<Option<String>, SettingError> {
        match self.value(name).map(OsStr::to_str) {
            None => Ok(None),
            Some(Some(text)) => Ok(Some(text.to_owned())),
            Some(None) => Err(SettingError::new(name, "the value is not text")),
        }
    }
}

/// A refused setting: its name and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {why}")]
pub struct SettingError {
    name: String,
    why: String,
    is_stop: bool,
}

impl SettingError {
    /// `name` is a flag or a variable, as the user wrote it.
    pub fn new(name: impl Into<String>, why: impl fmt::Display) -> Self {
        Self {
            name: name.into(),
            why: why.to_string(),
            is_stop: false,
        }
    }

    /// The file at `place`, which the setting names, cannot be read, or the user asked to stop.
    pub fn of_file(name: impl Into<String>, place: impl fmt::Display, e: &io::Error) -> Self {
        Self {
            is_stop: e.get_ref().is_some_and(|inner| inner.is::<Interrupted>()),
            ..Self::new(name, format!("{place}: {}", units::reason(e)))
        }
    }

    /// Returns true if the user asked to stop.
    pub fn is_stop(&self) -> bool {
        self.is_stop
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_gets_the_variables_that_are_ours() {
        let environment = Environment::of(&[
            ("QUINTET_PASSWORD", "p"),
            ("AWS_REGION", "r"),
            ("LC_ALL", "C"),
            ("TZ", "UTC"),
            ("GITHUB_TOKEN", "secret"),
            ("PGPASSWORD", "secret"),
            ("TERMINAL", "x"),
        ]);
        let names = |runs_programs| {
            let for_server = environment.for_server(runs_programs).into_iter();
            for_server
                .map(|(name, _)| name.into_string().unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            names(false),
            ["AWS_REGION", "LC_ALL", "QUINTET_PASSWORD", "TZ"]
        );
        assert_eq!(names(true).len(), 7);
        assert!(!environment.has_password_command());
        let with = Environment::of(&[("QUINTET_TO_PASSWORD_COMMAND", "pass")]);
        assert!(with.has_password_command());
    }
}
