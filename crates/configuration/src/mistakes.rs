//! Mistakes in a file. [`crate::Configuration::parse`] collects them.
//!
//! Invariant: each mistake has a line, the key and the remedy, and all mistakes of a file are
//! reported at once.

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {}{why}", prefix(.key))]
pub struct Mistake {
    /// Line of the file, from 1.
    pub line: usize,
    /// The key with its section: `sources.etc.when`. Empty if the file cannot be parsed there.
    pub key: String,
    /// The reason and the remedy.
    pub why: String,
}

fn prefix(key: &str) -> String {
    match key {
        "" => String::new(),
        key => format!("{key}: "),
    }
}

/// Lines of a text, for positions in it.
#[derive(Debug)]
pub(crate) struct Lines {
    ends: Vec<usize>,
}

impl Lines {
    pub fn of(text: &str) -> Self {
        let ends = text.match_indices('\n').map(|(at, _)| at);
        Self {
            ends: ends.collect(),
        }
    }

    /// Returns the line, from 1, of a byte.
    pub fn line(&self, at: usize) -> usize {
        self.ends.partition_point(|end| *end < at) + 1
    }
}
