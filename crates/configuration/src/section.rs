//! One table of the file, from which keys are taken one by one. The readers of the sections call
//! this.
//!
//! Invariant: a key that was not taken is a mistake. A value that is refused is a mistake too, and
//! counts as absent, so that the rest of the file is still checked.

use crate::Located;
use crate::mistakes::{Lines, Mistake};
use crate::when::{When, parse_span};
use std::path::PathBuf;
use terminal::sizes;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Maximum number of letters that a mistyped key may differ in from the one that was meant.
const LETTERS_OFF_MAX: usize = 2;

/// The mistakes so far, and the lines of the file.
#[derive(Debug)]
pub(crate) struct Notes {
    pub lines: Lines,
    pub mistakes: Vec<Mistake>,
}

impl Notes {
    pub fn add(&mut self, line: usize, key: impl Into<String>, why: impl Into<String>) {
        self.mistakes.push(Mistake {
            line,
            key: key.into(),
            why: why.into(),
        });
    }
}

/// A table. See the module's head.
pub(crate) struct Section<'a> {
    /// Its name in the file: `sources.etc`. Empty for the file.
    pub name: String,
    /// Its line.
    pub line: usize,
    entries: Vec<Entry<'a>>,
    known: Vec<&'static str>,
}

struct Entry<'a> {
    key: &'a str,
    at: usize,
    line: usize,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Section<'a> {
    pub fn new(name: String, line: usize, table: &'a DeTable<'a>, lines: &Lines) -> Self {
        let entry = |(key, value): (&'a Spanned<_>, &'a Spanned<DeValue<'a>>)| {
            let key: &'a Spanned<std::borrow::Cow<'a, str>> = key;
            let at = key.span().start;
            Entry {
                key: key.get_ref(),
                at,
                line: lines.line(at),
                value,
            }
        };
        let mut entries: Vec<_> = table.iter().map(entry).collect();
        // The order of the file is the order of the jobs.
        entries.sort_by_key(|entry| entry.at);
        Self {
            name,
            line,
            entries,
            known: Vec::new(),
        }
    }

    /// Returns the full name of a key.
    pub fn key(&self, key: &str) -> String {
        match self.name.as_str() {
            "" => key.to_owned(),
            name => format!("{name}.{key}"),
        }
    }

    fn take(&mut self, key: &'static str) -> Option<Entry<'a>> {
        self.known.push(key);
        let at = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.remove(at))
    }

    /// Takes a value that `read` accepts.
    pub fn read<T>(
        &mut self,
        notes: &mut Notes,
        key: &'static str,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, String>,
    ) -> Option<Located<T>> {
        let entry = self.take(key)?;
        match read(entry.value.get_ref()) {
            Ok(value) => Some(Located {
                value,
                line: entry.line,
            }),
            Err(why) => {
                notes.add(entry.line, self.key(key), why);
                None
            }
        }
    }

    /// Takes a text that `parse` accepts.
    pub fn parsed<T>(
        &mut self,
        notes: &mut Notes,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<Located<T>> {
        self.read(notes, key, |value| parse(&text(value)?))
    }

    /// Takes a text that is not empty.
    pub fn text(&mut self, notes: &mut Notes, key: &'static str) -> Option<Located<String>> {
        self.parsed(notes, key, |text| Ok(text.to_owned()))
    }

    /// Takes a size, as its text.
    pub fn size(&mut self, notes: &mut Notes, key: &'static str) -> Option<String> {
        let read = self.parsed(notes, key, |text| {
            sizes::parse(text).map_err(|e| e.to_string())?;
            Ok(text.to_owned())
        });
        read.map(|read| read.value)
    }

    /// Takes an absolute path.
    pub fn path(&mut self, notes: &mut Notes, key: &'static str) -> Option<Located<PathBuf>> {
        self.parsed(notes, key, absolute)
    }

    /// Takes a list of texts.
    pub fn texts(&mut self, notes: &mut Notes, key: &'static str) -> Option<Located<Vec<String>>> {
        self.read(notes, key, texts)
    }

    /// Takes a program and its arguments.
    pub fn command(
        &mut self,
        notes: &mut Notes,
        key: &'static str,
    ) -> Option<Located<Vec<String>>> {
        self.read(notes, key, |value| match value {
            DeValue::String(_) => Err(
                "a program and its arguments are a list, as no shell divides them; write \
                 [\"program\", \"argument\"]"
                    .to_owned(),
            ),
            value => match texts(value)? {
                command if command.is_empty() => {
                    Err("the list is empty; name a program".to_owned())
                }
                command => Ok(command),
            },
        })
    }

    /// Takes `true` or `false`; absent: `false`.
    pub fn flag(&mut self, notes: &mut Notes, key: &'static str) -> bool {
        let given = self.read(notes, key, |value| match value {
            DeValue::Boolean(value) => Ok(*value),
            other => Err(expected("true or false, without quotes", other)),
        });
        given.is_some_and(|given| given.value)
    }

    /// Takes a whole number in a range.
    pub fn number(
        &mut self,
        notes: &mut Notes,
        key: &'static str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Option<u64> {
        let given = self.read(notes, key, |value| number(value, range));
        given.map(|given| given.value)
    }

    /// Takes a schedule.
    pub fn when(&mut self, notes: &mut Notes) -> Option<When> {
        let given = self.parsed(notes, "when", When::parse);
        given.map(|given| given.value)
    }

    /// Takes a time span, seconds.
    pub fn span(&mut self, notes: &mut Notes, key: &'static str) -> Option<u64> {
        let given = self.parsed(notes, key, parse_span);
        given.map(|given| given.value)
    }

    /// Takes a table.
    pub fn section(&mut self, notes: &mut Notes, key: &'static str) -> Option<Section<'a>> {
        let entry = self.take(key)?;
        self.table(notes, &entry)
    }

    fn table(&self, notes: &mut Notes, entry: &Entry<'a>) -> Option<Section<'a>> {
        let name = self.key(entry.key);
        match entry.value.get_ref() {
            DeValue::Table(table) => {
                // The line of the header, not that of the first table below it.
                let line = entry.line;
                Some(Section::new(name, line, table, &notes.lines))
            }
            other => {
                let header = format!("a section; write [{name}]");
                notes.add(entry.line, name, expected(&header, other));
                None
            }
        }
    }

    /// Takes all tables below this one, with their names, in the order of the file.
    pub fn sections(mut self, notes: &mut Notes) -> Vec<(String, Section<'a>)> {
        let entries = std::mem::take(&mut self.entries);
        let named = entries.into_iter().filter_map(|entry| {
            let section = self.table(notes, &entry)?;
            Some((entry.key.to_owned(), section))
        });
        named.collect()
    }

    /// Returns true if the file has this key.
    pub fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// Accepts all keys that are left: their meaning is not known, because of another mistake.
    pub fn accept_rest(&mut self) {
        self.entries.clear();
    }

    /// Ends the section: keys that are left are mistakes.
    pub fn finish(self, notes: &mut Notes) {
        for entry in &self.entries {
            let near = self
                .known
                .iter()
                .map(|known| (letters_off(known, entry.key), known));
            let near = near.filter(|(off, _)| *off <= LETTERS_OFF_MAX).min();
            let what = match self.name.as_str() {
                "" => "section",
                _ => "key",
            };
            let why = match near {
                Some((_, near)) => format!("unknown {what}; did you mean {near}?"),
                None => format!("unknown {what}; known here are {}", self.known.join(", ")),
            };
            notes.add(entry.line, self.key(entry.key), why);
        }
    }
}

/// Accepts an absolute path.
pub(crate) fn absolute(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.is_absolute() {
        true => Ok(path),
        false => Err(format!(
            "{text:?} is not an absolute path; begin it with /, because a timer has no working directory"
        )),
    }
}

fn text(value: &DeValue<'_>) -> Result<String, String> {
    match value {
        DeValue::String(text) if text.is_empty() => {
            Err("the text is empty; remove the key or complete it".to_owned())
        }
        DeValue::String(text) if text.contains('\0') => {
            Err("the text has a NUL byte; remove it".to_owned())
        }
        DeValue::String(text) => Ok(text.clone().into_owned()),
        other => Err(expected("a text in quotes", other)),
    }
}

fn texts(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    match value {
        DeValue::Array(list) => list.iter().map(|item| text(item.get_ref())).collect(),
        DeValue::String(_) => {
            Err("expected a list, found a text; put it in brackets: [\"...\"]".to_owned())
        }
        other => Err(expected("a list of texts: [\"...\", \"...\"]", other)),
    }
}

fn number(value: &DeValue<'_>, range: std::ops::RangeInclusive<u64>) -> Result<u64, String> {
    let (least, most) = (range.start(), range.end());
    let wanted = match *most {
        u64::MAX => format!("a whole number from {least} up"),
        most => format!("a whole number from {least} to {most}"),
    };
    let DeValue::Integer(given) = value else {
        return Err(expected(&format!("{wanted}, without quotes"), value));
    };
    let parsed = u64::from_str_radix(given.as_str(), given.radix()).ok();
    let parsed = parsed.filter(|number| range.contains(number));
    parsed.ok_or_else(|| format!("{given} is not {wanted}; change it"))
}

fn expected(what: &str, found: &DeValue<'_>) -> String {
    let found = match found {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a time without quotes",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a section",
    };
    format!("expected {what}, found {found}")
}

/// Returns how many letters of `a` must be added, removed or replaced to get `b` (Levenshtein).
fn letters_off(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut last = i + 1;
        let mut next = vec![last];
        for (to, pair) in b.iter().zip(row.windows(2)) {
            let [diagonal, above] = pair else { continue };
            last = (diagonal + usize::from(*to != from))
                .min(above + 1)
                .min(last + 1);
            next.push(last);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}
