//! Refuses identifiers with words that the glossary replaces, types whose name says nothing, and a
//! name that public types of three crates have. `check` calls this.
//!
//! Invariant: every identifier of the code counts, of tests too. Strings do not: scripts and stored
//! data keep their names.

use super::prose::term_for;
use super::{Finding, SourceFile, Tree};
use std::collections::BTreeMap;

/// Names of types that need a noun before them.
const TYPES: [&str; 5] = ["Held", "Inner", "Kept", "Shared", "State"];
/// This many crates may not have public types of one name.
const CRATES_TOO_MANY: usize = 3;
/// Words that begin a type.
const KINDS: [&str; 5] = ["struct", "enum", "trait", "union", "type"];

/// See the module's head.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = tree.sources.iter().flat_map(check_source).collect();
    findings.extend(names_of_many(tree));
    findings
}

fn check_source(source: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, code) in source.code_lines() {
        for (at, name) in identifiers(code) {
            let is_iterators = code.get(..at).is_some_and(|before| before.ends_with('.'));
            for segment in segments(name) {
                let term = term_for(&segment);
                if let Some(term) = term.filter(|_| !(is_iterators && name == "fold")) {
                    let message =
                        format!("{segment:?} in `{name}`: write {term} (docs/glossary.md)");
                    findings.push(Finding::refuse(&source.path, line, message));
                }
            }
        }
        if let Some((_, name)) = defined(code).filter(|(_, name)| TYPES.contains(name)) {
            let message = format!("a type called {name} says nothing: put a noun before it");
            findings.push(Finding::refuse(&source.path, line, message));
        }
    }
    findings
}

/// Identifiers of a line of code, with where they begin.
fn identifiers(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let starts = code.char_indices().filter(move |(at, c)| {
        let before = code.get(..*at).and_then(|b| b.chars().next_back());
        is_part(*c) && !c.is_numeric() && !before.is_some_and(|b| is_part(b) || b == '\'')
    });
    starts.map(move |(at, _)| {
        let rest = code.get(at..).unwrap_or_default();
        (at, rest.split(|c| !is_part(c)).next().unwrap_or_default())
    })
}

/// `set_aside` gives set, aside; `OldNames` gives old, names.
fn segments(name: &str) -> Vec<String> {
    let mut segments = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if c == '_' || (c.is_uppercase() && was_lower) {
            segments.push(String::new());
        }
        was_lower = c.is_lowercase();
        if let Some(last) = segments.last_mut().filter(|_| c != '_') {
            last.extend(c.to_lowercase());
        }
    }
    segments
}

/// Returns the type that a line of code defines, and whether it is public and in no block.
fn defined(code: &str) -> Option<(bool, &str)> {
    let rest = code.strip_prefix("pub ");
    let is_public = rest.is_some();
    let mut words = identifiers(rest.unwrap_or(code.trim_start())).map(|(_, word)| word);
    let mut word = words.next()?;
    // `pub(crate) struct`, `unsafe trait`.
    while matches!(word, "pub" | "crate" | "super" | "in" | "unsafe") {
        word = words.next()?;
    }
    // An associated type has the name that its trait gives it.
    let is_indented = code.starts_with(' ');
    (KINDS.contains(&word) && !(word == "type" && is_indented)).then_some(())?;
    Some((is_public, words.next()?))
}

fn names_of_many(tree: &Tree) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, BTreeMap<&str, (&str, usize)>> = BTreeMap::new();
    let sources = tree.sources.iter();
    for source in sources.filter(|s| !s.is_test && !s.krate.is_empty() && s.path.contains("/src/"))
    {
        for (line, code) in source
            .code_lines()
            .filter(|(line, _)| !source.is_test_line(*line))
        {
            if let Some((true, name)) = defined(code) {
                let of_name = crates.entry(name).or_default();
                of_name.entry(&source.krate).or_insert((&source.path, line));
            }
        }
    }
    let mut findings = Vec::new();
    for (name, of_name) in crates {
        if of_name.len() >= CRATES_TOO_MANY {
            let all: Vec<&str> = of_name.keys().copied().collect();
            for (path, line) in of_name.values() {
                let message = format!(
                    "{} crates have a public type {name} ({}): say which in its name",
                    all.len(),
                    all.join(", ")
                );
                findings.push(Finding::refuse(path, *line, message));
            }
        }
    }
    findings
}
