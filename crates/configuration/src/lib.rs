//! The configuration file: what is backed up into which pool, when, what is kept, where copies go,
//! and who is notified. `quintet config`, `run` and `notify` read it.
//!
//! Invariant: pure. The text comes in, checked settings or all mistakes come out; nothing is opened
//! or run. What a job does is the command line of an existing command, so the file can do nothing
//! that the command line cannot.
//!
//! ```text
//! text --> toml --> Section (keys are taken, the rest is refused) --> Configuration --> Job
//!                                                                        its timer, its commands
//! ```
#![forbid(unsafe_code)]

mod job;
mod mistakes;
mod notify;
mod retention;
mod section;
mod source;
mod when;

pub use job::{Job, Task};
pub use mistakes::Mistake;
pub use notify::{Event, Format, Notify};
pub use retention::Retention;
pub use source::{Source, SourceKind, StreamSource, TreeSource};
pub use when::{When, span};

use mistakes::Lines;
use section::{Notes, Section};
use std::collections::BTreeMap;
use std::path::PathBuf;
use toml::de::DeTable;

/// Number of parts in which `[check]` reads all data by default.
const PARTS_DEFAULT: u64 = 7;
const PARTS_MAX: u64 = 1000;
/// Longest name of a source or copy, bytes: it is part of the names of units.
const NAME_BYTES_MAX: usize = 64;
/// Names of jobs, which no source and no copy may have.
const RESERVED: [&str; 6] = ["forget", "gc", "check", "scrub", "watch", "copy"];

/// A value and its line in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Its line, from 1.
    pub line: usize,
}

/// A checked file. See the crate's head.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// The pool.
    pub pool: PoolSection,
    /// The sources, in the order of the file.
    pub sources: Vec<Source>,
    /// The rules of `forget`.
    pub retention: Option<Retention>,
    /// The copies, in the order of the file.
    pub copies: Vec<Copy>,
    /// The check.
    pub check: Option<Check>,
    /// The scrub.
    pub scrub: Option<Scrub>,
    /// Where notifications go.
    pub notify: Option<Notify>,
}

/// `[pool]`.
#[derive(Clone, Debug)]
pub struct PoolSection {
    /// Its directory.
    pub path: Located<PathBuf>,
    /// Source of its password.
    pub password: Password,
    /// Memory of each command, as `--memory` takes it.
    pub memory: Option<String>,
}

/// Source of a password. Neither: from the environment, or there is none.
#[derive(Clone, Debug, Default)]
pub struct Password {
    /// File whose first line is the password.
    pub file: Option<Located<PathBuf>>,
    /// Program whose first line of output is the password.
    pub command: Option<Located<String>>,
}

/// `[copies.NAME]`.
#[derive(Clone, Debug)]
pub struct Copy {
    /// Its name.
    pub name: String,
    /// Directory of the receiving pool.
    pub to: Located<PathBuf>,
    /// Source of that pool's password.
    pub password: Password,
    /// Maximum bytes sent each second, as `--limit` takes it.
    pub limit: Option<String>,
    /// Schedule.
    pub when: Option<When>,
}

/// `[check]`.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// Each run reads one of this number of parts.
    pub parts: u64,
    /// Schedule.
    pub when: Option<When>,
}

/// `[scrub]`.
#[derive(Clone, Copy, Debug)]
pub struct Scrub {
    /// Schedule.
    pub when: Option<When>,
}

impl Configuration {
    /// Parses and checks a file. Returns all mistakes, in the order of the file.
    pub fn parse(text: &str) -> Result<Self, Vec<Mistake>> {
        let mut notes = Notes {
            lines: Lines::of(text),
            mistakes: Vec::new(),
        };
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in errors {
            let at = error.span().map_or(text.len(), |span| span.start);
            let line = notes.lines.line(at.min(text.trim_end().len()));
            notes.add(line, "", error.message());
        }
        if !notes.mistakes.is_empty() {
            // The rest of such a file would be misread.
            return Err(notes.mistakes);
        }
        let top = Section::new(String::new(), 1, table.get_ref(), &notes.lines);
        let read = Self::read(top, &mut notes);
        match read {
            Some(configuration) if notes.mistakes.is_empty() => Ok(configuration),
            _ => {
                notes.mistakes.sort_by_key(|mistake| mistake.line);
                Err(notes.mistakes)
            }
        }
    }

    /// Returns `None` only if there are mistakes.
    fn read(mut top: Section<'_>, notes: &mut Notes) -> Option<Self> {
        let pool = match top.section(notes, "pool") {
            Some(section) => PoolSection::read(section, notes),
            None => {
                let why = "the section is missing; write [pool] with path = \"/srv/pool\"";
                notes.add(1, "pool", why);
                None
            }
        };
        let sources = top.section(notes, "sources");
        let sources = sources.map_or_else(Vec::new, |sources| source::read(sources, notes));
        let retention = top.section(notes, "retention");
        let retention = retention.and_then(|section| Retention::read(section, notes));
        let copies = top.section(notes, "copies");
        let copies = copies.map_or_else(Vec::new, |copies| copies_of(copies, notes));
        let check = top.section(notes, "check").map(|mut section| {
            let parts = section.number(notes, "parts", 1..=PARTS_MAX);
            let when = section.when(notes);
            section.finish(notes);
            Check {
                parts: parts.unwrap_or(PARTS_DEFAULT),
                when,
            }
        });
        let scrub = top.section(notes, "scrub").map(|mut section| {
            let when = section.when(notes);
            section.finish(notes);
            Scrub { when }
        });
        let notify = top.section(notes, "notify");
        let notify = notify.and_then(|section| Notify::read(section, notes));
        top.finish(notes);
        let read = Self {
            pool: pool?,
            sources,
            retention,
            copies,
            check,
            scrub,
            notify,
        };
        read.check_names(notes);
        Some(read)
    }

    /// Refuses two jobs with one name, which a user could not tell apart.
    fn check_names(&self, notes: &mut Notes) {
        let copies = self.copies.iter();
        let copies = copies.map(|copy| ("copies", &copy.name, copy.to.line));
        let sources = self.sources.iter();
        let sources = sources.map(|source| ("sources", &source.name, source.line));
        let mut seen = BTreeMap::new();
        for (section, name, line) in sources.chain(copies) {
            if let Some(other) = seen.insert(name, section) {
                let why = format!("[{other}.{name}] has this name too; choose another");
                notes.add(line, format!("{section}.{name}"), why);
            }
        }
    }
}

impl PoolSection {
    fn read(mut section: Section<'_>, notes: &mut Notes) -> Option<Self> {
        let path = section.path(notes, "path");
        if path.is_none() {
            require(&section, notes, "path", "the directory of the pool");
        }
        let password = Password::read(&mut section, notes, ["password-file", "password-command"]);
        let memory = section.size(notes, "memory");
        section.finish(notes);
        Some(Self {
            path: path?,
            password,
            memory,
        })
    }
}

impl Password {
    fn read(
        section: &mut Section<'_>,
        notes: &mut Notes,
        [file_key, command_key]: [&'static str; 2],
    ) -> Self {
        let file = section.path(notes, file_key);
        let command = section.text(notes, command_key);
        if let (Some(_), Some(command)) = (&file, &command) {
            let why = format!("{file_key} is set too; remove one of them");
            notes.add(command.line, section.key(command_key), why);
        }
        Self { file, command }
    }
}

fn copies_of(section: Section<'_>, notes: &mut Notes) -> Vec<Copy> {
    let mut copies = Vec::new();
    for (name, mut section) in section.sections(notes) {
        check_name(&section, notes, &name);
        let to = section.path(notes, "to");
        if to.is_none() {
            require(&section, notes, "to", "the directory of the receiving pool");
        }
        let keys = ["to-password-file", "to-password-command"];
        let password = Password::read(&mut section, notes, keys);
        let limit = section.size(notes, "limit");
        let when = section.when(notes);
        section.finish(notes);
        copies.extend(to.map(|to| Copy {
            name,
            to,
            password,
            limit,
            when,
        }));
    }
    copies
}

/// Adds the mistake that a key is missing, unless it is there and was refused.
fn require(section: &Section<'_>, notes: &mut Notes, key: &str, what: &str) {
    let full = section.key(key);
    if !notes.mistakes.iter().any(|mistake| mistake.key == full) {
        let why = format!("the key is missing; give {what}");
        notes.add(section.line, full, why);
    }
}

/// Refuses names that the names of units, files and commands cannot have.
fn check_name(section: &Section<'_>, notes: &mut Notes, name: &str) {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let why = if RESERVED.contains(&name) {
        format!("{name} is a job of its own; choose another name")
    } else if !begins || !name.chars().all(is_plain) || name.len() > NAME_BYTES_MAX {
        "choose a name of letters, digits, dots, dashes and underscores, with a letter or digit first"
            .to_owned()
    } else {
        return;
    };
    notes.add(section.line, section.name.clone(), why);
}

#[cfg(test)]
mod tests;
