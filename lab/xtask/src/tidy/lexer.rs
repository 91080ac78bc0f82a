//! Separates a Rust file's code from its comments, strings and tests. It suffices for the rules but
//! is no parser. [`super::tree`] calls this.
//!
//! Invariant: blanked text keeps its lines and columns, so positions of findings are right.

use std::ops::Range;

/// The parts of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Lexed {
    /// The text with comments, strings and characters blanked.
    pub code: String,
    /// The text of comments alone, everything else blanked.
    pub comments: String,
    /// String literals: the offset of each in `code`, and its source text with the quotes.
    pub strings: Vec<(usize, String)>,
    /// Lines (from 1) inside `#[cfg(test)] mod name { ... }`.
    pub test_lines: Vec<Range<usize>>,
    /// Names of `#[cfg(test)] mod name;`.
    pub test_modules: Vec<String>,
}

/// Separates a file into its parts.
pub fn lex(text: &str) -> Lexed {
    let mut lexed = Lexed::default();
    let mut rest = text;
    let mut word_before = false;
    while let Some(first) = rest.chars().next() {
        let (kind, len) = next_piece(rest, word_before);
        let (piece, after) = rest.split_at(len.max(first.len_utf8()));
        if kind == Piece::Literal && piece.contains('"') && !piece.starts_with('\'') {
            lexed.strings.push((lexed.code.len(), piece.to_owned()));
        }
        let blank: String = piece
            .chars()
            .map(|c| if c == '\n' { '\n' } else { ' ' })
            .collect();
        lexed
            .code
            .push_str(if kind == Piece::Code { piece } else { &blank });
        lexed.comments.push_str(if kind == Piece::Comment {
            piece
        } else {
            &blank
        });
        word_before = kind == Piece::Code && (first.is_alphanumeric() || first == '_');
        rest = after;
    }
    find_tests(&mut lexed);
    lexed
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Piece {
    Code,
    Comment,
    Literal,
}

/// Returns the kind of the text at the front of `rest`, and its length in bytes.
fn next_piece(rest: &str, word_before: bool) -> (Piece, usize) {
    if rest.starts_with("//") {
        return (Piece::Comment, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (Piece::Comment, block_comment(rest));
    }
    if rest.starts_with('"') {
        return (Piece::Literal, quoted(rest, 1, '"'));
    }
    if !word_before {
        for prefix in ["r", "br", "cr"] {
            if let Some(len) = raw_string(rest, prefix) {
                return (Piece::Literal, len);
            }
        }
        for prefix in ["b\"", "c\""] {
            if rest.starts_with(prefix) {
                return (Piece::Literal, quoted(rest, 2, '"'));
            }
        }
        if rest.starts_with("b'") {
            return (Piece::Literal, quoted(rest, 2, '\''));
        }
    }
    if rest.starts_with('\'') && is_character(rest) {
        return (Piece::Literal, quoted(rest, 1, '\''));
    }
    (Piece::Code, 0)
}

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while let Some(here) = rest.get(at..).filter(|h| !h.is_empty()) {
        if here.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += here.chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// Length of a literal whose contents start at `from` and end at an unescaped `end`.
fn quoted(rest: &str, from: usize, end: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip_while(|(at, _)| *at < from) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == end => return at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

fn raw_string(rest: &str, prefix: &str) -> Option<usize> {
    let after = rest.strip_prefix(prefix)?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let body = after.get(hashes..)?.strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let start = prefix.len() + hashes + 1;
    Some(
        body.find(&end)
            .map_or(rest.len(), |at| start + at + end.len()),
    )
}

/// Returns true for `'x'` or `'\n'`, not for the lifetime `'x`.
fn is_character(rest: &str) -> bool {
    let mut chars = rest.chars().skip(1);
    match chars.next() {
        Some('\\') => true,
        Some(_) => chars.next() == Some('\''),
        None => false,
    }
}

fn find_tests(lexed: &mut Lexed) {
    const MARK: &str = "#[cfg(test)]";
    let code = &lexed.code;
    for (at, _) in code.match_indices(MARK) {
        let mut after = code.get(at + MARK.len()..).unwrap_or_default().trim_start();
        while after.starts_with("#[") {
            after = after
                .split_once(']')
                .map_or("", |(_, rest)| rest)
                .trim_start();
        }
        for visibility in ["pub(crate)", "pub(super)", "pub"] {
            after = after.strip_prefix(visibility).unwrap_or(after).trim_start();
        }
        let Some(module) = after.strip_prefix("mod ") else {
            continue;
        };
        let end = module.find([';', '{']).unwrap_or(module.len());
        let (name, body) = module.split_at(end);
        if body.starts_with(';') {
            lexed.test_modules.push(name.trim().to_owned());
        } else {
            let start = code.len() - body.len();
            let last = start + matching_brace(body);
            lexed
                .test_lines
                .push(line_of(code, at)..line_of(code, last) + 1);
        }
    }
}

fn matching_brace(body: &str) -> usize {
    let mut depth = 0usize;
    for (at, c) in body.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    body.len()
}

/// Line, from 1, of a byte offset.
pub fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|b| *b == b'\n').count() + 1
}
