//! One JSON object a line, for programs that watch this one.
//!
//! Invariant: every line has `message_type` first; fields are only ever added; bytes and counts are
//! integers, times RFC 3339. Bytes that are not text become U+FFFD, with the exact bytes beside
//! them in hex. Commands and [`crate::progress`] write these.

use crate::calendar;
use std::fmt::Write as _;
use units::UnixNanos;

/// An object being written. Methods chain; [`Object::finish`] gives the text.
#[derive(Clone, Debug)]
pub struct Object(String);

impl Default for Object {
    fn default() -> Self {
        Self::new()
    }
}

impl Object {
    /// An object inside a message.
    pub fn new() -> Self {
        Self("{".to_owned())
    }

    /// A message: `{"message_type":"..."`.
    pub fn message(message_type: &str) -> Self {
        Self::new().text("message_type", message_type)
    }

    /// Text.
    pub fn text(mut self, name: &str, value: &str) -> Self {
        self.name(name);
        quote(&mut self.0, value);
        self
    }

    /// Text, if there is any.
    pub fn text_if(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.text(name, value),
            None => self,
        }
    }

    /// Bytes that are usually text: a path or a name. Others get a second field, `<name>_hex`.
    pub fn path(self, name: &str, value: &[u8]) -> Self {
        let object = self.text(name, &String::from_utf8_lossy(value));
        if std::str::from_utf8(value).is_ok() {
            return object;
        }
        let hex = value.iter().fold(String::new(), |mut hex, byte| {
            // Writing to a String does not fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        object.text(&format!("{name}_hex"), &hex)
    }

    /// A count, a size or an identifier.
    pub fn integer(mut self, name: &str, value: impl Into<i128>) -> Self {
        self.name(name);
        let _ = write!(self.0, "{}", value.into());
        self
    }

    /// A measured value; what is not finite becomes null.
    pub fn number(mut self, name: &str, value: f64) -> Self {
        self.name(name);
        if value.is_finite() {
            let _ = write!(self.0, "{value}");
        } else {
            self.0.push_str("null");
        }
        self
    }

    /// True or false.
    pub fn boolean(mut self, name: &str, value: bool) -> Self {
        self.name(name);
        self.0.push_str(if value { "true" } else { "false" });
        self
    }

    /// A time, RFC 3339 in UTC.
    pub fn time(self, name: &str, value: UnixNanos) -> Self {
        self.text(name, &calendar::rfc3339(value))
    }

    /// An object in it.
    pub fn object(mut self, name: &str, value: Self) -> Self {
        self.name(name);
        self.0.push_str(&value.finish());
        self
    }

    /// A list of objects.
    pub fn objects(mut self, name: &str, values: impl IntoIterator<Item = Self>) -> Self {
        self.name(name);
        list(&mut self.0, values, |out, value| {
            out.push_str(&value.finish())
        });
        self
    }

    /// A list of texts; bytes that are not text become U+FFFD.
    pub fn texts<T: AsRef<[u8]>>(
        mut self,
        name: &str,
        values: impl IntoIterator<Item = T>,
    ) -> Self {
        self.name(name);
        list(&mut self.0, values, |out, value| {
            quote(out, &String::from_utf8_lossy(value.as_ref()));
        });
        self
    }

    /// The whole object, without a line end.
    pub fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }

    fn name(&mut self, name: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        quote(&mut self.0, name);
        self.0.push(':');
    }
}

fn list<T>(
    out: &mut String,
    values: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut String, T),
) {
    out.push('[');
    for (i, value) in values.into_iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        write(out, value);
    }
    out.push(']');
}

fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // Those that turn the direction of text too: a message may stand on a terminal.
            c if c.is_control()
                || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
            {
                // They are all below U+10000: one escape each.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_a_message_holds() {
        let line = Object::message("summary")
            .integer("bytes", u64::MAX)
            .integer("below", -1)
            .number("share", 0.5)
            .number("nothing", f64::NAN)
            .boolean("dry_run", true)
            .time("taken", UnixNanos(1_500_000_000))
            .object("inner", Object::new())
            .objects("list", [Object::new().integer("a", 1), Object::new()])
            .texts("tags", ["x", "y\""])
            .text_if("none", None)
            .finish();
        assert_eq!(
            line,
            "{\"message_type\":\"summary\",\"bytes\":18446744073709551615,\"below\":-1,\
             \"share\":0.5,\"nothing\":null,\"dry_run\":true,\
             \"taken\":\"1970-01-01T00:00:01.5Z\",\"inner\":{},\
             \"list\":[{\"a\":1},{}],\"tags\":[\"x\",\"y\\\"\"]}"
        );
    }

    #[test]
    fn text_stays_on_its_line() {
        let line = Object::new()
            .text("t", "a\nb\t\"\\\u{1}\u{7f}\u{2028}\u{e9}")
            .finish();
        assert_eq!(
            line,
            "{\"t\":\"a\\nb\\t\\\"\\\\\\u0001\\u007f\u{2028}\u{e9}\"}"
        );
    }

    #[test]
    fn bytes_that_are_not_text() {
        let line = Object::new().path("path", b"/a\xff").finish();
        assert_eq!(line, "{\"path\":\"/a\u{fffd}\",\"path_hex\":\"2f61ff\"}");
    }
}
