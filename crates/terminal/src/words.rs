//! Text that fits a width: shortened names, and lines that are wrapped between their parts. Tables
//! and commands for terminals call this.
//!
//! Invariant: a number is never cut.

use std::borrow::Cow;

/// End of a name that is shortened.
const MORE: &str = "...";
/// Start of a line that continues another one.
const INDENT: &str = "  ";
/// Separates the parts of a line.
const BETWEEN: &str = "; ";

/// Returns a name of at most `width` characters. A longer one loses its end, which three dots
/// replace.
pub fn shortened(name: &str, width: usize) -> Cow<'_, str> {
    if name.chars().count() <= width {
        return Cow::Borrowed(name);
    }
    let kept = width.saturating_sub(MORE.len());
    let text: String = name.chars().take(kept).chain(MORE.chars()).collect();
    Cow::Owned(text)
}

/// Returns the lines of a text of parts with semicolons between them, each of at most `width`
/// characters unless a part is longer.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in text.split_inclusive(BETWEEN) {
        let more = part.trim_end().chars().count();
        match lines.last_mut() {
            Some(line) if line.chars().count().saturating_add(more) <= width => line.push_str(part),
            Some(_) => lines.push(format!("{INDENT}{part}")),
            None => lines.push(part.to_owned()),
        }
    }
    let trimmed = lines.iter().map(|line| line.trim_end().to_owned());
    trimmed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_end() {
        assert_eq!(shortened("volume", 6), "volume");
        assert_eq!(shortened("volumes", 6), "vol...");
        assert_eq!(shortened("\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}", 4), "\u{fc}...");
    }

    #[test]
    fn lines_end_between_parts() {
        let text = "journal: 1 %; 20 records, 3 syncs; 7 checkpoints";
        assert_eq!(wrapped(text, usize::MAX), [text]);
        assert_eq!(
            wrapped(text, 36),
            ["journal: 1 %; 20 records, 3 syncs;", "  7 checkpoints"]
        );
        assert_eq!(
            wrapped(text, 10),
            ["journal: 1 %;", "  20 records, 3 syncs;", "  7 checkpoints"]
        );
    }
}
