//! Reads one condition of a rule. `rule` calls this, through `condition`.
//!
//! Invariant: what it returns is answered from facts that front ends can have; conditions that only
//! the kernel of the client can answer are refused with what to use instead.

use super::{Compare, Condition, Kinds, Quantity, Question};
use crate::error::Problem;
use crate::facts::Pattern;
use units::Origin;

/// How a condition is read.
#[derive(Clone, Copy)]
enum Form {
    Contents(Kinds),
    Direct,
    /// With the largest value that makes sense.
    Number(Quantity, u64),
    Direction,
    Pattern,
    Origin,
    Volume,
    /// Bare: contents; with a path: files below it.
    Directory,
    Extension,
    NamePrefix,
    OnlyKernel(&'static str),
}

const ORIGINS: &str = "client, backup, restore, replication, scrub, gc, defragmentation";

const FORMS: [(&str, Form); 24] = [
    ("metadata", Form::Contents(Kinds::METADATA)),
    ("journal", Form::Contents(Kinds::JOURNAL)),
    ("directory", Form::Directory),
    ("free", Form::Contents(Kinds::FREE)),
    ("unknown", Form::Contents(Kinds::UNKNOWN)),
    ("direct", Form::Direct),
    ("file_size", Form::Number(Quantity::FileSize, u64::MAX)),
    ("file_offset", Form::Number(Quantity::FileOffset, u64::MAX)),
    (
        "request_size",
        Form::Number(Quantity::RequestSize, u64::MAX),
    ),
    ("lba", Form::Number(Quantity::Lba, u64::MAX)),
    ("io_class", Form::Number(Quantity::IoClass, 63)),
    ("wire", Form::Number(Quantity::WireClass, 63)),
    ("io_direction", Form::Direction),
    ("pattern", Form::Pattern),
    ("origin", Form::Origin),
    ("volume", Form::Volume),
    ("extension", Form::Extension),
    ("file_name_prefix", Form::NamePrefix),
    ("pid", Form::OnlyKernel("use origin: or volume:")),
    ("process_name", Form::OnlyKernel("use origin: or volume:")),
    ("io_cgroup", Form::OnlyKernel("use origin: or volume:")),
    (
        "wlth",
        Form::OnlyKernel("use wire:N; over iSCSI, Linux sends the hint as a group number"),
    ),
    ("hint", Form::OnlyKernel("use wire:")),
    ("core_id", Form::OnlyKernel("use volume:NAME")),
];

/// Reads `name` or `name:value`.
pub(crate) fn parse(text: &str) -> Result<Condition, Problem> {
    let (name, operand) = match text.split_once(':') {
        Some((name, operand)) => (name.trim(), Some(operand.trim())),
        None => (text.trim(), None),
    };
    if name.is_empty() {
        return Err(Problem::Empty);
    }
    let Some((name, form)) = FORMS.iter().find(|(known, _)| *known == name) else {
        let found = name.to_owned();
        return Err(Problem::Condition { found });
    };
    let question = match (form, operand) {
        (Form::OnlyKernel(instead), _) => {
            let (condition, instead) = (*name, *instead);
            return Err(Problem::OnlyKernel { condition, instead });
        }
        (Form::Contents(_) | Form::Direct, Some(_)) => {
            return Err(Problem::Operand { condition: name });
        }
        (Form::Contents(kinds), None) => Question::Contents(*kinds),
        (Form::Direct, None) => Question::Direct,
        (Form::Directory, None) => Question::Contents(Kinds::DIRECTORY),
        (form, None | Some("")) => {
            let (condition, example) = (*name, form.example());
            return Err(Problem::NoOperand { condition, example });
        }
        (form, Some(operand)) => with_operand(form, operand)?,
    };
    Ok(Condition {
        text: text.trim().into(),
        question,
    })
}

impl Form {
    const fn example(&self) -> &'static str {
        match self {
            Self::Number(Quantity::FileSize, _) => "file_size:le:4096",
            Self::Number(Quantity::FileOffset, _) => "file_offset:lt:4096",
            Self::Number(Quantity::RequestSize, _) => "request_size:ge:131072",
            Self::Number(Quantity::Lba, _) => "lba:lt:2048",
            Self::Number(Quantity::IoClass, _) => "io_class:3",
            Self::Number(Quantity::WireClass, _) => "wire:5",
            Self::Direction => "io_direction:read",
            Self::Pattern => "pattern:rand",
            Self::Origin => "origin:backup",
            Self::Volume => "volume:db-*",
            Self::Directory => "directory:/srv/www",
            Self::Extension => "extension:log",
            Self::NamePrefix => "file_name_prefix:core.",
            Self::Contents(_) | Self::Direct | Self::OnlyKernel(_) => "metadata",
        }
    }
}

fn with_operand(form: &Form, operand: &str) -> Result<Question, Problem> {
    let word = |allowed| Problem::Word {
        found: operand.to_owned(),
        allowed,
    };
    Ok(match form {
        Form::Number(quantity, max) => number(*quantity, *max, operand)?,
        Form::Direction => Question::Direction {
            is_write: match operand {
                "read" => false,
                "write" => true,
                _ => return Err(word("read, write")),
            },
        },
        Form::Pattern => Question::Pattern(match operand {
            "seq" => Pattern::Sequential,
            "mono" => Pattern::Monotonic,
            "rand" => Pattern::Random,
            _ => return Err(word("seq, mono, rand")),
        }),
        Form::Origin => Question::Origin(match operand {
            "client" => Origin::Foreground,
            "backup" => Origin::Backup,
            "restore" => Origin::Restore,
            "replication" => Origin::Replication,
            "scrub" => Origin::Scrub,
            "gc" => Origin::Collect,
            "defragmentation" => Origin::Defragment,
            _ => return Err(word(ORIGINS)),
        }),
        Form::Volume => Question::Volume(operand.into()),
        Form::Directory => match operand.strip_prefix('/') {
            Some(_) => Question::Under(operand.trim_end_matches('/').as_bytes().into()),
            None => {
                let found = operand.to_owned();
                return Err(Problem::NotFromRoot { found });
            }
        },
        Form::Extension => Question::Extension(operand.as_bytes().into()),
        Form::NamePrefix => Question::NamePrefix(operand.as_bytes().into()),
        // `parse` has answered these.
        Form::Contents(_) | Form::Direct | Form::OnlyKernel(_) => return Err(Problem::Empty),
    })
}

/// Reads `4096` or `le:4096`.
fn number(quantity: Quantity, max: u64, operand: &str) -> Result<Question, Problem> {
    let (compare, digits) = match operand.split_once(':') {
        None => (Compare::Eq, operand),
        Some((compare, digits)) => {
            let compare = match compare.trim() {
                "eq" => Compare::Eq,
                "ne" => Compare::Ne,
                "lt" => Compare::Lt,
                "gt" => Compare::Gt,
                "le" => Compare::Le,
                "ge" => Compare::Ge,
                other => {
                    let found = other.to_owned();
                    return Err(Problem::Comparison { found });
                }
            };
            (compare, digits.trim())
        }
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    match digits.parse::<u64>() {
        Ok(value) if is_number && value <= max => Ok(Question::Number(quantity, compare, value)),
        _ => Err(Problem::Number {
            found: digits.to_owned(),
            max,
        }),
    }
}
