//! The rules of the house, checked over the files of a checkout. `main` calls this.
//!
//! ```text
//! files -> Tree -> rules (one file each) -> findings
//! ```
//!
//! Invariant: a rule is a function from files to findings, so that a canary can show that it fails.
//! A finding says where, what, and what to do.

mod cycles;
mod documents;
mod emptiness;
mod harnesses;
mod layers;
mod lexer;
mod manifest;
mod map;
mod messages;
mod names;
mod pipeline;
mod prose;
mod shape;
#[cfg(test)]
mod tests;
mod tree;
mod words;

pub use messages::Message;
use std::fmt;
use std::path::Path;
pub use tree::{SourceFile, Tree};

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// File, relative to the checkout.
    pub path: String,
    /// Line, from 1; 0 for the whole file.
    pub line: usize,
    /// The violation and its remedy.
    pub message: String,
    /// False for a warning.
    pub refused: bool,
}

impl Finding {
    fn refuse(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            message: message.into(),
            refused: true,
        }
    }

    fn warn(path: &str, line: usize, message: impl Into<String>) -> Self {
        let refused = false;
        Self {
            refused,
            ..Self::refuse(path, line, message)
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.refused { "refused" } else { "warning" };
        match self.line {
            0 => write!(f, "{how}: {}: {}", self.path, self.message),
            line => write!(f, "{how}: {}:{line}: {}", self.path, self.message),
        }
    }
}

/// Runs all rules over the checkout at `root`.
pub fn run(root: &Path) -> std::io::Result<Vec<Finding>> {
    Ok(check(&Tree::load(root)?))
}

/// Returns every message of the program in the checkout at `root`.
pub fn messages(root: &Path) -> std::io::Result<Vec<Message>> {
    Ok(messages::list(&Tree::load(root)?))
}

fn check(tree: &Tree) -> Vec<Finding> {
    let rules = [
        layers::check,
        pipeline::check,
        cycles::check,
        shape::check,
        words::check,
        prose::check,
        messages::check,
        names::check,
        harnesses::check,
        documents::check,
        emptiness::check,
        map::check,
    ];
    let mut findings: Vec<Finding> = rules.iter().flat_map(|rule| rule(tree)).collect();
    findings.sort();
    findings
}
