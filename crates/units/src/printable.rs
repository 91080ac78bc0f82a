//! Converts bytes of file systems and pools to text that is safe on a terminal. The console calls
//! this for every line, and errors for the names in them.
//!
//! Invariant: nothing in the text moves a terminal's cursor.

use std::borrow::Cow;

/// Escapes bytes that are no text, and characters that would move a terminal's cursor.
pub fn printable(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                c if moves(c) => out.extend(c.escape_default()),
                c => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

/// The same for messages of this program that may include names: ends of lines are kept,
/// backslashes are not escaped.
pub fn tamed(text: &[u8]) -> Cow<'_, [u8]> {
    let is_wild = |c: char| moves(c) && c != '\n';
    let chunks = || text.utf8_chunks();
    if chunks().all(|chunk| chunk.invalid().is_empty() && !chunk.valid().contains(is_wild)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for chunk in chunks() {
        for c in chunk.valid().chars() {
            match is_wild(c) {
                true => out.extend(c.escape_default()),
                false => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    Cow::Owned(out.into_bytes())
}

/// The same for a cell of a table, or a name in a line: ends of lines are escaped too.
pub fn tamed_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match moves(c) {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
    }
    out
}

/// Returns true for control characters, and for characters that change the direction of text.
fn moves(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_upset_a_terminal() {
        let name = "\u{fc} \\ \u{1b}[2J".as_bytes();
        assert_eq!(printable(name), "\u{fc} \\\\ \\u{1b}[2J");
        assert_eq!(printable(b"a\xffb"), "a\\xffb");
    }

    #[test]
    fn lines_keep_their_ends_and_names_do_not() {
        assert_eq!(&*tamed(b"plain \xff"), b"plain \\xff");
        assert!(matches!(tamed(b"plain\n"), Cow::Borrowed(_)));
        assert_eq!(tamed_name("a\n"), "a\\n");
    }
}
