//! Checks the English of Markdown pages: words that the glossary replaces, and sentences whose
//! subject is a clause with "what" or "who". Warns of long lines. `prose::check` calls this.
//!
//! ```text
//! page -> blocks -> without names -> sentences and words -> findings
//! ```
//!
//! Invariant: only prose is checked. Code spans, code blocks and targets of links quote names.
//! Generated parts of pages are the generator's.

use super::{BANNED, FIRST_WORDS, positions};
use crate::tidy::{Finding, Tree};

/// Words that are banned in pages only. Comments use them with other meanings.
const BANNED_IN_PAGES: &[(&[&str], &str)] = &[
    (&["fold", "folds", "folding"], "apply"),
    (
        &["nobody", "somebody", "anybody"],
        "who it is: user, client, reader, writer",
    ),
    (
        &["lessor", "lending", "lends"],
        "grant server, or running commands for clients",
    ),
];

/// Pages that are not checked, and why.
const EXCEPT: &[(&str, &str)] = &[
    ("docs/glossary.md", "it names the words"),
    ("docs/evaluation/ageing.md", "not in these terms yet"),
    ("docs/evaluation/duet.md", "not in these terms yet"),
    (
        "docs/evaluation/ingest.md",
        "bench/report.py writes all of it",
    ),
];

/// Longest line of prose, characters.
const COLUMNS_MAX: usize = 120;

/// Ends of the lines around a generated part. Each begins with a comment and a name.
const GENERATED_FROM: &str = ": from here -->";
const GENERATED_TO: &str = ": to here -->";

/// See the module's head.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let is_checked = |path: &str| {
        path.ends_with(".md") && EXCEPT.iter().all(|(except, _reason)| *except != path)
    };
    let pages = tree.texts.iter().filter(|(path, _)| is_checked(path));
    pages
        .flat_map(|(path, text)| check_page(path, text))
        .collect()
}

fn check_page(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for block in blocks(text) {
        let prose = without_names(&block.text);
        for (line, columns) in block.lines().filter(|(_, columns)| *columns > COLUMNS_MAX) {
            let message = format!("a line of {columns} columns: wrap it at {COLUMNS_MAX}");
            findings.push(Finding::warn(path, line, message));
        }
        let mut refuse = |at: usize, message: String| {
            findings.push(Finding::refuse(path, block.line_of(at), message));
        };
        for (at, sentence) in sentences(&prose).filter(|_| block.is_prose) {
            let first = sentence.split_whitespace().next().unwrap_or_default();
            if FIRST_WORDS.contains(&first) && !sentence.ends_with('?') {
                refuse(
                    at,
                    format!("a sentence begins with {first:?}: name its subject"),
                );
            }
        }
        let lower = prose.to_ascii_lowercase();
        for (words, term) in BANNED.iter().chain(BANNED_IN_PAGES) {
            for word in *words {
                if let Some(at) = positions(&lower, word).next() {
                    refuse(at, format!("{word:?}: write {term} (docs/glossary.md)"));
                }
            }
        }
    }
    findings
}

/// A paragraph, a list item, a heading or a row of a table.
struct Block {
    /// Line of the page where it begins.
    line: usize,
    /// Its lines, joined with spaces.
    text: String,
    /// Where each line begins in `text`.
    starts: Vec<usize>,
    /// Characters of each line.
    columns: Vec<usize>,
    /// It has sentences. Headings and rows need not have any.
    is_prose: bool,
}

impl Block {
    /// The number and the width of each line of prose.
    fn lines(&self) -> impl Iterator<Item = (usize, usize)> {
        let columns = self.columns.iter().copied();
        (self.line..).zip(columns).filter(|_| self.is_prose)
    }

    fn line_of(&self, at: usize) -> usize {
        let begun = self.starts.iter().filter(|start| **start <= at).count();
        self.line + begun.saturating_sub(1)
    }
}

/// Splits a page into blocks. Leaves out code and generated parts.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut is_open, mut is_fenced, mut is_generated) = (false, false, false);
    for (line, whole) in (1..).zip(page.lines()) {
        let text = whole.trim();
        let is_fence = text.starts_with("```");
        is_fenced ^= is_fence;
        is_generated |= text.starts_with("<!--") && text.ends_with(GENERATED_FROM);
        is_generated &= !text.ends_with(GENERATED_TO);
        // After an empty line, a line that is indented by four is code.
        let is_indented = !is_open && whole.starts_with("    ");
        let is_code = is_fence || is_fenced || is_indented;
        if text.is_empty() || is_code || is_generated || text.starts_with("<!--") {
            is_open = false;
            continue;
        }
        let is_prose = !text.starts_with(['#', '|']);
        let (text, is_item) = without_mark(text);
        let open = blocks
            .last_mut()
            .filter(|_| is_open && is_prose && !is_item);
        if let Some(block) = open {
            block.text.push(' ');
            block.starts.push(block.text.len());
            block.columns.push(whole.chars().count());
            block.text.push_str(text);
        } else {
            blocks.push(Block {
                line,
                text: text.to_owned(),
                starts: vec![0],
                columns: vec![whole.chars().count()],
                is_prose,
            });
        }
        is_open = is_prose;
    }
    blocks
}

/// Returns a line without the mark of a list item, and whether it had one.
fn without_mark(text: &str) -> (&str, bool) {
    let after_digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_numbered = after_digits.len() < text.len();
    let numbered = after_digits.strip_prefix(". ").filter(|_| is_numbered);
    match text.strip_prefix("- ").or(numbered) {
        Some(rest) => (rest.trim_start(), true),
        None => (text, false),
    }
}

/// Blanks out code spans and targets of links. Every other byte keeps its place.
fn without_names(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let (mut is_code, mut is_target) = (false, false);
    let mut before = [0; 2];
    for &byte in text.as_bytes() {
        is_code ^= byte == b'`';
        is_target |= before == *b"](";
        is_target &= byte != b')';
        let is_name = is_code || is_target || byte == b'`';
        out.push(if is_name { b'_' } else { byte });
        before = [before[1], byte];
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The sentences of a block, and where each begins. Marks of emphasis are not part of them.
fn sentences(prose: &str) -> impl Iterator<Item = (usize, &str)> {
    let closing = ['*', ')', ']', '"'];
    let opening = ['*', '(', '[', '"', ' '];
    let is_end = move |at: &usize| {
        let after = prose.get(at + 1..).unwrap_or_default();
        let after = after.trim_start_matches(closing);
        after.is_empty() || after.starts_with(' ')
    };
    let marks = prose.match_indices(['.', '?', '!']).map(|(at, _)| at);
    let ends: Vec<usize> = marks
        .filter(is_end)
        .map(|at| at + 1)
        .chain([prose.len()])
        .collect();
    let starts = std::iter::once(0).chain(ends.clone());
    starts.zip(ends).map(move |(start, end)| {
        let whole = prose.get(start..end).unwrap_or_default();
        let text = whole
            .trim_start_matches(closing)
            .trim_start_matches(opening);
        (start + whole.len() - text.len(), text.trim_end())
    })
}
