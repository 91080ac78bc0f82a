//! A problem of a policy file: line, column, and what to do.
//!
//! `policy` returns this; the program prints it after the file's name.
//! Invariant: each message names the remedy.

use std::fmt;

/// First line of a policy file.
pub(crate) const HEADER: &str = "IO class id,IO class name,Eviction priority,Allocation";

/// Column of a policy file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Column {
    /// `IO class id`.
    Id,
    /// `IO class name`: the rule.
    Name,
    /// `Eviction priority`.
    Priority,
    /// `Allocation`.
    Allocation,
}

impl Column {
    /// Name in the header of the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Id => "IO class id",
            Self::Name => "IO class name",
            Self::Priority => "Eviction priority",
            Self::Allocation => "Allocation",
        }
    }
}

/// A policy file that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyError {
    /// Line, from 1.
    pub line: usize,
    /// Column, if the problem is in one.
    pub column: Option<Column>,
    /// The problem.
    pub problem: Problem,
}

/// The problem, and the text that has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Problem {
    /// The file is longer than any policy can be.
    FileTooLong {
        /// Maximum, bytes.
        bytes_max: usize,
    },
    /// The first line is not the header.
    Header,
    /// A line has another number of fields.
    Fields {
        /// Fields of the line.
        found: usize,
    },
    /// A comment for the fast tier has another number of fields.
    FastFields {
        /// Fields of the line.
        found: usize,
    },
    /// A comment for the fast tier names a class that the file does not have.
    FastClass {
        /// The class.
        class: u8,
    },
    /// Another comment for the fast tier names the class.
    FastTwice {
        /// Line that names it.
        first_line: usize,
    },
    /// A quoted field does not end, or something follows it.
    Quotes,
    /// Not a class number.
    Id {
        /// The field.
        found: String,
    },
    /// The class has a line already.
    IdTwice {
        /// Line that has it.
        first_line: usize,
    },
    /// Class 0 has a rule, or another class is called unclassified.
    Unclassified,
    /// Not a priority.
    Priority {
        /// The field.
        found: String,
    },
    /// Not a share.
    Allocation {
        /// The field.
        found: String,
    },
    /// The rule is empty, or a condition of it.
    Empty,
    /// The rule is longer than Open CAS allows.
    RuleTooLong {
        /// Maximum, bytes.
        bytes_max: usize,
    },
    /// `&` and `|` in one rule, which Open CAS leaves undefined.
    Mixed,
    /// `done` is not at the end after `&`.
    Done,
    /// No such condition.
    Condition {
        /// Its name.
        found: String,
    },
    /// A condition that only the kernel of the machine that does the I/O can answer.
    OnlyKernel {
        /// Its name.
        condition: &'static str,
        /// Its replacement.
        instead: &'static str,
    },
    /// The condition needs a value.
    NoOperand {
        /// Its name.
        condition: &'static str,
        /// How it can look.
        example: &'static str,
    },
    /// The condition takes no value.
    Operand {
        /// Its name.
        condition: &'static str,
    },
    /// No such comparison.
    Comparison {
        /// The text there.
        found: String,
    },
    /// Not a number that this condition can have.
    Number {
        /// The text there.
        found: String,
        /// Largest that it can have.
        max: u64,
    },
    /// Not a value of the condition.
    Word {
        /// The text there.
        found: String,
        /// The values.
        allowed: &'static str,
    },
    /// A directory that does not begin at the root.
    NotFromRoot {
        /// The text there.
        found: String,
    },
    /// `io_class` of a class whose rule comes later or never, so it cannot match.
    LaterClass {
        /// The class.
        class: u8,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FileTooLong { bytes_max } => {
                write!(f, "a policy has at most {bytes_max} bytes; is this the right file?")
            }
            Self::Header => write!(f, "the first line must be: {}", HEADER),
            Self::Fields { found } => write!(
                f,
                "{found} fields, not 4; put a rule that contains a comma in double quotes"
            ),
            Self::FastFields { found } => write!(
                f,
                "{found} fields after # fast:, not 3; write # fast: ID,PRIORITY,ALLOCATION, \
                 or begin a comment with another word"
            ),
            Self::FastClass { class } => write!(
                f,
                "class {class} has no rule in this file; add its line, or remove this one"
            ),
            Self::FastTwice { first_line } => {
                write!(f, "line {first_line} is for this class; remove one of the two")
            }
            Self::Quotes => f.write_str(
                "a quoted field must end with a quote before the comma; write a quote inside it twice",
            ),
            Self::Id { found } => write!(
                f,
                "{found:?} is not a class; use a number from 0 to {}",
                crate::CLASSES - 1
            ),
            Self::IdTwice { first_line } => write!(
                f,
                "line {first_line} has this class; join the rules with |, or use another number"
            ),
            Self::Unclassified => f.write_str(
                "class 0 is called unclassified and has no rule; give the rule another number",
            ),
            Self::Priority { found } => write!(
                f,
                "{found:?} is not a priority; use 0 (kept longest) to 255 (evicted first), \
                 or leave it empty to pin the class"
            ),
            Self::Allocation { found } => write!(
                f,
                "{found:?} is not a share; use 0.00 (do not cache) to 1.00, two decimals at most"
            ),
            Self::Empty => f.write_str("a condition is missing; remove the extra & or |, or add it"),
            Self::RuleTooLong { bytes_max } => {
                write!(f, "a rule has at most {bytes_max} bytes; split it over two classes")
            }
            Self::Mixed => f.write_str(
                "& and | in one rule; give one part a class of its own and refer to it with io_class:N",
            ),
            Self::Done => f.write_str("done must be the last condition, after &"),
            Self::Condition { found } => write!(
                f,
                "no condition is called {found:?}; see docs/policies.md for all of them"
            ),
            Self::OnlyKernel { condition, instead } => write!(
                f,
                "{condition} is known only inside the machine that does the I/O; {instead}"
            ),
            Self::NoOperand { condition, example } => {
                write!(f, "{condition} needs a value, for example {example}")
            }
            Self::Operand { condition } => {
                write!(f, "{condition} takes no value; remove the colon and what follows")
            }
            Self::Comparison { found } => {
                write!(f, "{found:?} is not a comparison; use eq, ne, lt, gt, le or ge")
            }
            Self::Number { found, max } => {
                write!(f, "{found:?} is not a number here; use digits, 0 to {max}")
            }
            Self::Word { found, allowed } => {
                write!(f, "{found:?} is not a value here; use one of {allowed}")
            }
            Self::NotFromRoot { found } => {
                write!(f, "{found:?} is not a directory; begin with / at the root of its file system")
            }
            Self::LaterClass { class } => write!(
                f,
                "class {class} is not given before this rule; refer to a smaller number that has a rule"
            ),
        }
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        if let Some(column) = self.column {
            write!(f, ", {}", column.name())?;
        }
        write!(f, ": {}", self.problem)
    }
}

impl std::error::Error for PolicyError {}
