//! Checks the English of comments: line length, first words, and words that the glossary replaces.
//! `check` calls this; [`super::messages`] asks it for the words. The submodule checks pages.
//!
//! Invariant: every crate is checked. Code spans in backticks are not: they quote names.

mod pages;

use super::{Finding, SourceFile, Tree};

/// Longest line with a comment, characters. rustfmt limits code to the same width.
const COLUMNS_MAX: usize = 100;

/// A comment line, a message, or a sentence of a page must not begin with these: it has no subject.
pub const FIRST_WORDS: &[&str] = &["What", "Who", "Whoever"];

/// Unambiguous words of the second table of `docs/glossary.md`, and the term for each.
const BANNED: &[(&[&str], &str)] = &[
    (&["mend", "mends", "mended", "mending"], "repair"),
    (&["heal", "heals", "healed", "healing"], "repair"),
    (&["set aside", "sets aside"], "quarantine"),
    (&["folded", "unfolded"], "applied, not yet applied"),
    (&["flights"], "single-flight"),
    (&["asker", "askers"], "I/O origin, or the caller"),
    (&["seat", "seats"], "index writer lock"),
    (&["told", "untold"], "reported, or known"),
    (&["gone"], "deleted, expired or closed: say which"),
    (&["in vain"], "without effect, or garbage"),
    (&["crowding", "restraint"], "back-pressure"),
    (&["reclaim", "reclaims", "reclaimed"], "garbage collection"),
    (&["give space back", "gives space back"], "free space"),
    (&["upkeep"], "maintenance schedule"),
    (&["rehearsal", "rehearse", "rehearses"], "dry run"),
    (&["unwritten page", "unwritten pages"], "dirty page"),
    (
        &["whoever", "for who"],
        "caller, reader, writer or client: say which",
    ),
];

/// Words that are banned in identifiers only: a name has no sentence around it that makes its
/// meaning clear.
const BANNED_IN_IDENTIFIERS: &[(&[&str], &str)] = &[
    (
        &["fold", "folds", "folding", "unfold"],
        "apply, not yet applied",
    ),
    (&["vain"], "without effect, or garbage"),
    (&["crowd", "crowded"], "back-pressure"),
    (
        &["reclaiming", "reclaimable", "reclaimer"],
        "garbage collection, or garbage",
    ),
    (&["rehearsed"], "dry run"),
    (
        &["lessor", "lend", "lends", "lending", "lent"],
        "grant server, or running commands for clients",
    ),
    (
        &["who", "whom", "nobody", "somebody"],
        "caller, reader, writer or client: say which",
    ),
];

/// Returns the term for a part of an identifier that the glossary replaces.
pub fn term_for(part: &str) -> Option<&'static str> {
    let mut all = BANNED.iter().chain(BANNED_IN_IDENTIFIERS);
    let found = all.find(|(words, _)| words.contains(&part));
    found.map(|(_, term)| *term)
}

/// See the module's head.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let comments = tree.sources.iter().flat_map(check_source);
    comments.chain(pages::check(tree)).collect()
}

fn check_source(source: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = source.text.lines().zip(source.lexed.comments.lines());
    for (line, (whole, comment)) in (1..).zip(lines) {
        let comment = comment.trim();
        if comment.is_empty() {
            continue;
        }
        let mut refuse = |message: String| {
            findings.push(Finding::refuse(&source.path, line, message));
        };
        let columns = whole.chars().count();
        if columns > COLUMNS_MAX {
            refuse(format!(
                "a comment of {columns} columns: wrap it at {COLUMNS_MAX}"
            ));
        }
        let text = comment.trim_start_matches(['/', '!', '*']).trim_start();
        let first = text.split_whitespace().next().unwrap_or_default();
        if FIRST_WORDS.contains(&first) {
            refuse(format!(
                "a comment line begins with {first:?}: write subject, verb, object"
            ));
        }
        for (word, term) in banned(text) {
            refuse(format!(
                "{word:?} in a comment: write {term} (docs/glossary.md)"
            ));
        }
    }
    findings
}

/// Returns the words of `text` that the glossary replaces, and the term for each.
pub fn banned(text: &str) -> Vec<(&'static str, &'static str)> {
    let prose = without_code(text).to_lowercase();
    let words = BANNED
        .iter()
        .flat_map(|(words, term)| words.iter().map(move |word| (*word, *term)));
    words
        .filter(|(word, _)| contains_word(&prose, word))
        .collect()
}

/// Drops code spans. A span that continues on the next line is dropped to the end of this one.
fn without_code(text: &str) -> String {
    let prose: Vec<&str> = text.split('`').step_by(2).collect();
    prose.join("`")
}

/// Returns true if `text` contains `word` as whole words.
pub fn contains_word(text: &str, word: &str) -> bool {
    positions(text, word).next().is_some()
}

/// Returns where `text` contains `word` as whole words.
fn positions(text: &str, word: &str) -> impl Iterator<Item = usize> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let is_whole = move |at: &usize| {
        let before = text.get(..*at).and_then(|b| b.chars().next_back());
        let after = text.get(at + word.len()..).and_then(|a| a.chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    };
    text.match_indices(word).map(|(at, _)| at).filter(is_whole)
}
