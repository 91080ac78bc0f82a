//! Text that users write in files, variables and arguments: lists, patterns, passwords, rules.
//! Everything that reads such text calls this.
//!
//! Invariant: what an editor or a system adds to a text is no part of it: a byte order mark at its
//! beginning, and either kind of line end (LF, or CR and LF). UTF-16 is refused, because its bytes
//! would be taken for other names.

/// Byte order mark in UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";
const UTF_16: &str = "it is in UTF-16; save it as UTF-8";

/// Reason why bytes are not such a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotText(pub &'static str);

impl std::fmt::Display for NotText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for NotText {}

/// Returns the text without its byte order mark.
pub fn unmarked(bytes: &[u8]) -> Result<&[u8], NotText> {
    match bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        true => Err(NotText(UTF_16)),
        false => Ok(bytes.strip_prefix(MARK).unwrap_or(bytes)),
    }
}

/// Returns the lines of a list of names or patterns, without their ends.
pub fn of_list(bytes: &[u8]) -> Result<impl Iterator<Item = &[u8]>, NotText> {
    let text = unmarked(bytes)?;
    match text.contains(&0) {
        true => Err(NotText(
            "it has NUL bytes, so it is no list of lines in UTF-8",
        )),
        false => Ok(text.split(|b| *b == b'\n').map(without_end)),
    }
}

/// Returns the first line, without its end. The others may say anything.
pub fn first(bytes: &[u8]) -> Result<&[u8], NotText> {
    let line = unmarked(bytes)?.split(|b| *b == b'\n').next();
    Ok(without_end(line.unwrap_or_default()))
}

/// Returns a text of one line, without its end.
pub fn only(bytes: &[u8]) -> Result<&[u8], NotText> {
    let text = unmarked(bytes)?;
    let line = without_end(text.strip_suffix(b"\n").unwrap_or(text));
    match line.contains(&b'\n') {
        true => Err(NotText("it has several lines")),
        false => Ok(line),
    }
}

fn without_end(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_ends_are_no_part_of_a_text() {
        let list = |bytes| of_list(bytes).map(Iterator::collect::<Vec<_>>);
        let plain = Ok(vec![&b"a"[..], b" b\xff", b""]);
        for text in [
            &b"a\n b\xff\n"[..],
            b"a\r\n b\xff\r\n",
            b"\xef\xbb\xbfa\n b\xff\n",
        ] {
            assert_eq!(list(text), plain);
            assert_eq!(first(text), Ok(&b"a"[..]));
            assert!(only(text).is_err());
        }
        for text in [&b"a"[..], b"a\n", b"a\r\n", b"a\r", b"\xef\xbb\xbfa"] {
            assert_eq!(only(text), Ok(&b"a"[..]));
        }
        assert_eq!(only(b""), Ok(&b""[..]));
        assert_eq!(first(b""), Ok(&b""[..]));
        assert!(list(b"a\0b").is_err());
        for utf_16 in [&b"\xff\xfea\0"[..], b"\xfe\xff\0a"] {
            assert!(list(utf_16).is_err() && first(utf_16).is_err() && only(utf_16).is_err());
        }
    }
}
