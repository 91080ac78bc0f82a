//! One condition of a rule: what it asks of a request, and the answer.
//!
//! `rule` reads conditions from text and combines them; `explain` shows their answers.
//! Invariant: answering allocates nothing. A fact that is not known never satisfies a condition, as
//! in Open CAS, also not `ne`.

mod contradiction;
mod glob;
mod parsing;

pub(crate) use contradiction::contradict;
pub(crate) use parsing::parse;

use crate::facts::{Contents, Facts, Pattern};
use glob::matches_glob;
use std::fmt;
use units::{IoClass, Origin};

/// Set of kinds of contents, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kinds(pub(crate) u8);

/// Number of kinds.
pub(crate) const KINDS: usize = 6;

impl Kinds {
    pub(crate) const UNKNOWN: Self = Self(1);
    /// Directories and the journal are metadata too, as in Open CAS; a later rule can tell them
    /// apart.
    pub(crate) const METADATA: Self = Self(2 | Self::JOURNAL.0 | Self::DIRECTORY.0);
    pub(crate) const JOURNAL: Self = Self(4);
    pub(crate) const DIRECTORY: Self = Self(8);
    pub(crate) const FILE: Self = Self(16);
    pub(crate) const FREE: Self = Self(32);
    pub(crate) const ALL: Self = Self(63);

    /// Returns the bit number of what a request addresses.
    pub(crate) const fn number(contents: &Contents) -> u32 {
        match contents {
            Contents::Unknown => 0,
            Contents::Metadata => 1,
            Contents::Journal => 2,
            Contents::Directory => 3,
            Contents::File { .. } => 4,
            Contents::Free => 5,
        }
    }

    const fn has(self, contents: &Contents) -> bool {
        self.0 & (1 << Self::number(contents)) != 0
    }
}

/// A number that is known of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Quantity {
    FileSize,
    FileOffset,
    RequestSize,
    /// 512-byte sectors from the start of the volume.
    Lba,
    WireClass,
    /// Class that earlier rules gave.
    IoClass,
}

/// Comparison with a number of the policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Compare {
    Eq,
    Ne,
    Lt,
    Gt,
    Le,
    Ge,
}

/// Question about a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Question {
    Contents(Kinds),
    Number(Quantity, Compare, u64),
    Direction {
        is_write: bool,
    },
    Pattern(Pattern),
    Origin(Origin),
    Volume(Box<str>),
    Direct,
    /// The file lies in this directory, at any depth.
    Under(Box<[u8]>),
    Extension(Box<[u8]>),
    NamePrefix(Box<[u8]>),
}

/// A question, and the text that asks it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Condition {
    pub(crate) text: Box<str>,
    pub(crate) question: Question,
}

/// Answer of a condition about a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Answer {
    /// It holds.
    Yes,
    /// It does not hold.
    No,
    /// The fact is not known of this request, so it does not hold.
    Unknown,
}

impl From<bool> for Answer {
    fn from(holds: bool) -> Self {
        match holds {
            true => Self::Yes,
            false => Self::No,
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Unknown => "not known",
        })
    }
}

impl Compare {
    const fn holds(self, value: u64, with: u64) -> bool {
        match self {
            Self::Eq => value == with,
            Self::Ne => value != with,
            Self::Lt => value < with,
            Self::Gt => value > with,
            Self::Le => value <= with,
            Self::Ge => value >= with,
        }
    }
}

impl Quantity {
    /// Returns the number, `None` if the request has none.
    fn of(self, facts: &Facts<'_>, class: IoClass) -> Option<u64> {
        let in_file = |size: bool| match facts.contents {
            Contents::File { size_bytes, .. } if size => Some(size_bytes),
            Contents::File { offset_bytes, .. } => Some(offset_bytes),
            _ => None,
        };
        match self {
            Self::FileSize => in_file(true),
            Self::FileOffset => in_file(false),
            Self::RequestSize => Some(facts.len_bytes),
            Self::Lba => Some(facts.offset_bytes / 512),
            Self::WireClass if facts.wire_class == 0 => None,
            Self::WireClass => Some(facts.wire_class.into()),
            Self::IoClass => Some(class.0.into()),
        }
    }
}

impl Question {
    /// Answers for a request to which earlier rules gave `class`.
    #[inline]
    pub(crate) fn answer(&self, facts: &Facts<'_>, class: IoClass) -> Answer {
        match self {
            Self::Contents(kinds) if kinds.has(&facts.contents) => Answer::Yes,
            Self::Contents(_) if facts.contents == Contents::Unknown => Answer::Unknown,
            Self::Contents(_) => Answer::No,
            Self::Number(quantity, compare, with) => match quantity.of(facts, class) {
                Some(value) => compare.holds(value, *with).into(),
                None => Answer::Unknown,
            },
            Self::Direction { is_write } => (*is_write == facts.is_write).into(),
            Self::Pattern(pattern) => known(facts.pattern.map(|is| is == *pattern)),
            Self::Origin(origin) => (*origin == facts.origin).into(),
            Self::Volume(glob) => matches_glob(glob.as_bytes(), facts.volume.as_bytes()).into(),
            Self::Direct => known(facts.is_direct),
            Self::Under(directory) => known(facts.file_path.map(|path| is_under(path, directory))),
            Self::Extension(wanted) => {
                let matches = |path| extension(path) == Some(&**wanted);
                known(facts.file_path.map(matches))
            }
            Self::NamePrefix(prefix) => {
                known(facts.file_path.map(|path| name(path).starts_with(prefix)))
            }
        }
    }

    /// Returns the kinds of contents about which the answer can be yes.
    pub(crate) fn kinds(&self) -> Kinds {
        match self {
            Self::Contents(kinds) => *kinds,
            Self::Number(Quantity::FileSize | Quantity::FileOffset, ..) => Kinds::FILE,
            _ => Kinds::ALL,
        }
    }

    /// Returns whether the answer can be yes for a read, and for a write.
    pub(crate) fn directions(&self) -> (bool, bool) {
        match self {
            Self::Direction { is_write } => (!is_write, *is_write),
            _ => (true, true),
        }
    }
}

fn known(holds: Option<bool>) -> Answer {
    holds.map_or(Answer::Unknown, Answer::from)
}

fn name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// Returns what follows the last dot of the name.
fn extension(path: &[u8]) -> Option<&[u8]> {
    let name = name(path);
    let dot = name.iter().rposition(|byte| *byte == b'.')?;
    name.get(dot + 1..)
}

/// Returns true for the directory itself and for all in it. `directory` has no slash at its end.
fn is_under(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory)
        .is_some_and(|rest| rest.first().is_none_or(|byte| *byte == b'/'))
}

#[cfg(test)]
mod tests;
