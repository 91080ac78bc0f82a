//! Finds the paths that a file names: its `use` items, expanded, and paths from `crate`, `self` or
//! `super` in its code. `cycles` calls this.
//!
//! Invariant: tests are left out. It suffices for this project's style but is no parser: names from
//! macros are not seen.

use crate::tidy::SourceFile;
use crate::tidy::lexer::line_of;

/// One path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// Its names.
    pub path: Vec<String>,
    /// Its name in this file; `*` for all.
    pub name: String,
    /// Line, from 1.
    pub line: usize,
    /// A `use` item: other files can import the name from here.
    pub is_item: bool,
}

/// Returns all paths of a file.
pub fn imports(source: &SourceFile) -> Vec<Import> {
    let code = source.lexed.code.as_str();
    let mut found = Vec::new();
    let mut item_end = 0;
    for (at, word) in words(code) {
        if at < item_end {
            continue;
        }
        let line = line_of(code, at);
        let after = code.get(at + word.len()..).unwrap_or_default();
        if source.is_test_line(line) {
            continue;
        }
        match word {
            "use" => {
                let tree = after.split_once(';').map_or(after, |(tree, _)| tree);
                // `impl Trait + use<'a>` is no item.
                if !tree.trim_start().starts_with('<') {
                    item_end = at + word.len() + tree.len();
                    expand(tree, &[], line, &mut found);
                }
            }
            "crate" | "super" | "self" if after.starts_with("::") && !follows_path(code, at) => {
                let path = inline(code.get(at..).unwrap_or_default());
                let name = path.last().cloned().unwrap_or_default();
                let is_item = false;
                found.push(Import {
                    path,
                    name,
                    line,
                    is_item,
                });
            }
            _ => {}
        }
    }
    found
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// All words with their offsets.
fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let starts = code.char_indices().filter(move |(at, c)| {
        let before = code.get(..*at).and_then(|b| b.chars().next_back());
        is_word(*c) && !before.is_some_and(is_word)
    });
    starts.map(|(at, _)| {
        let rest = code.get(at..).unwrap_or_default();
        (at, rest.split(|c| !is_word(c)).next().unwrap_or_default())
    })
}

/// Returns true in the middle of a path, and for `$crate`.
fn follows_path(code: &str, at: usize) -> bool {
    let before = code.get(..at).unwrap_or_default();
    before.ends_with("::") || before.ends_with('$')
}

/// `crate::a::b::C<...` gives crate, a, b, C.
fn inline(text: &str) -> Vec<String> {
    let end = text.find(|c| !is_word(c) && c != ':').unwrap_or(text.len());
    let path = text.get(..end).unwrap_or_default();
    path.split("::")
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Expands `a::{b, c::d as e, self}`.
fn expand(tree: &str, above: &[String], line: usize, into: &mut Vec<Import>) {
    let tree = tree.trim();
    let (names, group) = match tree.split_once('{') {
        Some((names, group)) => (
            names,
            Some(group.trim_end().strip_suffix('}').unwrap_or(group)),
        ),
        None => (tree, None),
    };
    let (names, alias) = match names.split_once(" as ") {
        Some((names, alias)) => (names, Some(alias.trim())),
        None => (names, None),
    };
    let mut path = above.to_vec();
    let names = names
        .split("::")
        .map(str::trim)
        .filter(|name| !name.is_empty());
    path.extend(names.map(str::to_owned));
    if let Some(group) = group {
        for item in items(group) {
            expand(item, &path, line, into);
        }
        return;
    }
    // `a::{self}` is `a`; `self::b` and `super::super` stay unchanged.
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    let glob = path.last().is_some_and(|last| last == "*");
    let last = path.last().cloned().unwrap_or_default();
    if glob {
        path.pop();
    }
    let name = alias.map_or(last, str::to_owned);
    if !path.is_empty() {
        into.push(Import {
            path,
            name,
            line,
            is_item: true,
        });
    }
}

/// Splits at commas outside of inner groups.
fn items(group: &str) -> Vec<&str> {
    let (mut depth, mut from, mut items) = (0usize, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                items.extend(group.get(from..at));
                from = at + 1;
            }
            _ => {}
        }
    }
    items.extend(group.get(from..));
    items.retain(|item| !item.trim().is_empty());
    items
}
