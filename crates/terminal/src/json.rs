//! JSON lines for programs: one object a line. Commands and [`crate::progress`] write them.
//!
//! Invariant: `message_type` is the first field of every line. Fields are added, never removed or
//! renamed. Bytes and counts are integers; times are RFC 3339. Bytes that are not UTF-8 become
//! U+FFFD, with the exact bytes beside them in hex.

mod print;

use crate::calendar;
use serde_json::{Map, Number, Value};
use std::fmt::Write as _;
use units::UnixNanos;

/// An object under construction. Methods chain; [`Object::finish`] returns the text.
#[derive(Clone, Debug, Default)]
pub struct Object(Map<String, Value>);

impl Object {
    /// Makes an object inside a message.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes an object of stored fields.
    pub fn of(fields: Map<String, Value>) -> Self {
        Self(fields)
    }

    /// Makes a message: `{"message_type":"..."}`.
    pub fn message(message_type: &str) -> Self {
        Self::new().text("message_type", message_type)
    }

    /// Adds text.
    pub fn text(self, name: &str, value: &str) -> Self {
        self.with(name, value)
    }

    /// Adds text, if there is any.
    pub fn text_if(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.text(name, value),
            None => self,
        }
    }

    /// Adds a path or name. If it is not UTF-8, a field `<name>_hex` is added too.
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

    /// Adds a count, size or identifier.
    pub fn integer(self, name: &str, value: impl Into<Number>) -> Self {
        self.with(name, value.into())
    }

    /// Adds a measured value. A value that is not finite becomes null.
    pub fn number(self, name: &str, value: f64) -> Self {
        self.with(name, value)
    }

    /// Adds a boolean.
    pub fn boolean(self, name: &str, value: bool) -> Self {
        self.with(name, value)
    }

    /// Adds a time, RFC 3339 in UTC.
    pub fn time(self, name: &str, value: UnixNanos) -> Self {
        self.with(name, calendar::rfc3339(value))
    }

    /// Adds an object.
    pub fn object(self, name: &str, value: Self) -> Self {
        self.with(name, value.0)
    }

    /// Adds a list of objects.
    pub fn objects(self, name: &str, values: impl IntoIterator<Item = Self>) -> Self {
        let values = values.into_iter().map(|value| Value::Object(value.0));
        self.with(name, values.collect::<Value>())
    }

    /// Adds a list of texts. Bytes that are not UTF-8 become U+FFFD.
    pub fn texts<T: AsRef<[u8]>>(self, name: &str, values: impl IntoIterator<Item = T>) -> Self {
        let text = |value: T| String::from_utf8_lossy(value.as_ref()).into_owned();
        self.with(name, values.into_iter().map(text).collect::<Value>())
    }

    /// Adds the numbers of a report, which names them.
    pub fn integers(self, fields: impl IntoIterator<Item = (&'static str, u64)>) -> Self {
        let add = |object: Self, (name, value)| object.integer(name, value);
        fields.into_iter().fold(self, add)
    }

    /// Returns the whole object, without a line end.
    pub fn finish(self) -> String {
        print::line(&self.0)
    }

    fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        let before = self.0.insert(name.to_owned(), value.into());
        debug_assert!(before.is_none(), "two fields called {name}");
        self
    }
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
            .text(
                "t",
                "a\nb\t\"\\\u{1}\u{8}\u{c}\u{7f}\u{202e}!\u{2028}\u{e9}",
            )
            .finish();
        assert_eq!(
            line,
            "{\"t\":\"a\\nb\\t\\\"\\\\\\u0001\\u0008\\u000c\\u007f\\u202e!\u{2028}\u{e9}\"}"
        );
    }

    #[test]
    fn numbers_are_printed_in_full() {
        let line = Object::new()
            .number("whole", 3.0)
            .number("large", 1e21)
            .number("small", 1e-7)
            .integer("least", i64::MIN)
            .finish();
        assert_eq!(
            line,
            "{\"whole\":3,\"large\":1000000000000000000000,\"small\":0.0000001,\
             \"least\":-9223372036854775808}"
        );
    }

    #[test]
    fn what_is_printed_is_json() {
        let text: String = (0..0x3000).filter_map(char::from_u32).collect();
        let line = Object::message(&text).text(&text, "").finish();
        assert!(!line.chars().any(char::is_control));
        let Value::Object(fields) = serde_json::from_str(&line).unwrap() else {
            panic!("{line}");
        };
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| (name.as_str(), value))
            .collect();
        let (first, second) = (Value::from(text.as_str()), Value::from(""));
        assert_eq!(fields, [("message_type", &first), (&text, &second)]);
    }

    #[test]
    fn bytes_that_are_not_text() {
        let line = Object::new().path("path", b"/a\xff").finish();
        assert_eq!(line, "{\"path\":\"/a\u{fffd}\",\"path_hex\":\"2f61ff\"}");
    }
}
