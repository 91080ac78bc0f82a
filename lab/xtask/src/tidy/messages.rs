//! The texts that the program can print: string literals of the crates that ship, and rules for
//! their English. `tidy` checks them; `cargo xtask messages` lists them for a review.
//!
//! ```text
//! literal -> taker (the call, attribute or field around it) -> message, if it reaches a user
//! ```
//!
//! Invariant: a literal with two words is a message unless its taker is known not to print it, so
//! a new way of printing is covered. Single words are keys of JSON, names and units, except in
//! calls that print.

mod rules;
mod taker;

use super::manifest::Layer;
use super::{Finding, SourceFile, Tree};
use std::fmt;

/// Calls and attributes whose literals no user sees: they end in a panic, which is a bug, or are
/// for the compiler.
const SILENT: &[&str] = &[
    "assert!",
    "assert_eq!",
    "assert_ne!",
    "debug_assert!",
    "debug_assert_eq!",
    "debug_assert_ne!",
    "panic!",
    "unreachable!",
    "const_assert!",
    "expect",
    "expect_err",
    "matches!",
    "env!",
    "option_env!",
    "include_str!",
    "include_bytes!",
    "allow",
    "cfg",
    "cfg_attr",
    "serde",
    "must_use",
    "deprecated",
];

/// Calls and attributes that format or print: a literal of theirs with one word is a message too.
const PRINTING: &[&str] = &[
    "print!",
    "println!",
    "eprint!",
    "eprintln!",
    "format!",
    "format_args!",
    "write!",
    "writeln!",
    "bail!",
    "anyhow!",
    "context",
    "with_context",
    "error",
    "warn",
    "note",
];

/// A text that the program can print.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// File, relative to the checkout.
    pub path: String,
    /// Line of the literal, from 1.
    pub line: usize,
    /// The call (`println!`, `context`), attribute (`error`) or field around it; may be empty.
    pub taker: String,
    /// The text, as printed except for `{}`.
    pub text: String,
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let taker = match self.taker.as_str() {
            "" => "-",
            taker => taker,
        };
        write!(f, "{}:{}: {taker}: {:?}", self.path, self.line, self.text)
    }
}

/// See the module's head.
pub fn list(tree: &Tree) -> Vec<Message> {
    let shipped = tree.sources.iter().filter(|source| ships(tree, source));
    shipped.flat_map(of_source).collect()
}

/// See the module's head.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let messages = list(tree);
    messages.iter().flat_map(rules::check).collect()
}

/// Returns true if a user runs the file's code.
fn ships(tree: &Tree, source: &SourceFile) -> bool {
    let manifest = tree.manifest(&source.krate);
    manifest.is_some_and(|m| m.layer != Some(Layer::Dev)) && !source.is_test
}

fn of_source(source: &SourceFile) -> Vec<Message> {
    let takers = taker::of_strings(&source.lexed);
    let strings = source.lexed.strings.iter().zip(takers);
    let mut messages = Vec::new();
    for ((offset, literal), taker) in strings {
        let line = super::lexer::line_of(&source.lexed.code, *offset);
        let Some(text) = taker::contents(literal) else {
            continue;
        };
        let words_min = match PRINTING.contains(&taker.as_str()) {
            true => 1,
            false => 2,
        };
        let printed = rules::words(&text) >= words_min;
        if source.is_test_line(line) || SILENT.contains(&taker.as_str()) || !printed {
            continue;
        }
        messages.push(Message {
            path: source.path.clone(),
            line,
            taker,
            text,
        });
    }
    messages
}
