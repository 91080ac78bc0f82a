//! Formats JSON on one line, safe for terminals, numbers without exponents. [`super::Object`] calls
//! this.
//!
//! Invariant: characters that control a terminal or the direction of text are escaped.

use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, Serializer};
use serde_json::{Map, Value};
use std::io::{Result, Write};

/// Returns the object without a line end.
pub(super) fn line(object: &Map<String, Value>) -> String {
    let mut bytes = Vec::new();
    let mut printer = Serializer::with_formatter(&mut bytes, Printer);
    // Writing to memory does not fail, and every key is a string.
    let _ = object.serialize(&mut printer);
    String::from_utf8(bytes).unwrap_or_default()
}

struct Printer;

impl Formatter for Printer {
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> Result<()> {
        write!(writer, "{value}")
    }

    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> Result<()> {
        let mut plain = fragment;
        for c in fragment.chars().filter(|c| is_hidden(*c)) {
            let (before, after) = plain.split_once(c).unwrap_or((plain, ""));
            writer.write_all(before.as_bytes())?;
            escape(writer, u32::from(c))?;
            plain = after;
        }
        writer.write_all(plain.as_bytes())
    }

    fn write_char_escape<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        char_escape: CharEscape,
    ) -> Result<()> {
        match char_escape {
            CharEscape::Backspace => escape(writer, 0x08),
            CharEscape::FormFeed => escape(writer, 0x0c),
            other => CompactFormatter.write_char_escape(writer, other),
        }
    }
}

/// Returns true for characters that JSON leaves as they are but a terminal acts on. All are below
/// U+10000.
fn is_hidden(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escape<W: ?Sized + Write>(writer: &mut W, code: u32) -> Result<()> {
    write!(writer, "\\u{code:04x}")
}
