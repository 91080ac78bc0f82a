//! Finds conditions that no request can satisfy, alone or together. `rule` asks it, once for each
//! rule.
//!
//! Invariant: it errs on one side. Conditions that it calls contradictory never hold together;
//! others may not hold together either, such as two patterns for the names of volumes.

use super::{Compare, Condition, Quantity, Question, is_under, matches_glob};

/// Returns true if no request satisfies all conditions.
pub(crate) fn contradict(conditions: &[Condition]) -> bool {
    let questions = || conditions.iter().map(|condition| &condition.question);
    questions().enumerate().any(|(number, one)| {
        let mut before = questions().take(number);
        is_never(one)
            || before.any(|other| exclude(one, other) || exclude(other, one))
            || matches!(one, Question::Number(of, ..) if !has_value(*of, questions()))
    })
}

/// Names have no slash, extensions no dot.
fn is_never(question: &Question) -> bool {
    match question {
        Question::Extension(extension) => extension.iter().any(|byte| b"./".contains(byte)),
        Question::NamePrefix(prefix) => prefix.contains(&b'/'),
        _ => false,
    }
}

fn exclude(one: &Question, other: &Question) -> bool {
    match (one, other) {
        (Question::Direction { is_write: one }, Question::Direction { is_write }) => {
            one != is_write
        }
        (Question::Pattern(one), Question::Pattern(other)) => one != other,
        (Question::Origin(one), Question::Origin(other)) => one != other,
        (Question::Extension(one), Question::Extension(other)) => one != other,
        (Question::NamePrefix(one), Question::NamePrefix(other)) => {
            !one.starts_with(other) && !other.starts_with(one)
        }
        (Question::Under(one), Question::Under(other)) => {
            !is_under(one, other) && !is_under(other, one)
        }
        (Question::Volume(name), Question::Volume(glob)) => {
            let is_name = !name.contains('*');
            is_name && !matches_glob(glob.as_bytes(), name.as_bytes())
        }
        _ => false,
    }
}

/// Returns true if a value of the quantity satisfies all conditions on it.
fn has_value<'a>(of: Quantity, questions: impl Iterator<Item = &'a Question> + Clone) -> bool {
    let on_it = questions.filter_map(|question| match question {
        Question::Number(quantity, compare, with) if *quantity == of => {
            Some((*compare, i128::from(*with)))
        }
        _ => None,
    });
    let (mut low, mut high) = match of {
        // 0 is no class on the wire.
        Quantity::WireClass => (1, crate::CLASSES as i128 - 1),
        Quantity::IoClass => (0, crate::CLASSES as i128 - 1),
        _ => (0, u64::MAX.into()),
    };
    for (compare, with) in on_it.clone() {
        let (least, most) = match compare {
            Compare::Eq => (with, with),
            Compare::Ne => continue,
            Compare::Lt => (low, with - 1),
            Compare::Le => (low, with),
            Compare::Gt => (with + 1, high),
            Compare::Ge => (with, high),
        };
        (low, high) = (low.max(least), high.min(most));
    }
    while low <= high && on_it.clone().any(|refused| refused == (Compare::Ne, low)) {
        low += 1;
    }
    low <= high
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::parse;

    fn contradictory(rule: &str) -> bool {
        let conditions: Vec<_> = rule.split('&').map(|one| parse(one).expect(one)).collect();
        contradict(&conditions)
    }

    #[test]
    fn what_no_request_can_satisfy_is_found() {
        for rule in [
            "file_size:lt:10&file_size:gt:20",
            "file_size:gt:20&metadata&file_size:lt:10",
            "file_size:lt:10&file_size:ge:10",
            "request_size:le:9&request_size:ge:10",
            "lba:gt:1&lba:lt:2",
            "lba:1&lba:2",
            "file_offset:eq:5&file_offset:ne:5",
            "wire:ge:5&wire:le:6&wire:ne:5&wire:ne:6",
            "file_size:lt:0",
            "file_size:gt:18446744073709551615",
            "io_class:gt:63",
            "wire:0",
            "wire:lt:2&wire:ne:1",
            "io_direction:read&io_direction:write",
            "pattern:seq&pattern:rand",
            "origin:gc&origin:client",
            "extension:log&extension:db",
            "extension:tar.gz",
            "file_name_prefix:a/b",
            "file_name_prefix:core.&file_name_prefix:log",
            "directory:/srv/a&directory:/srv/ab",
            "volume:web&volume:db-*",
            "volume:db-*&volume:web",
            "volume:a&volume:b",
        ] {
            assert!(contradictory(rule), "{rule}");
        }
    }

    #[test]
    fn what_a_request_can_satisfy_is_not() {
        for rule in [
            "file_size:lt:20&file_size:gt:10",
            "file_size:le:10&file_size:ge:10",
            "file_size:lt:10&file_offset:gt:20",
            "lba:1&lba:1",
            "wire:ge:5&wire:le:7&wire:ne:5&wire:ne:7",
            "file_size:ge:18446744073709551615",
            "wire:1",
            "pattern:seq&pattern:seq",
            "extension:log",
            "file_name_prefix:core.&file_name_prefix:co",
            "directory:/srv&directory:/srv/a",
            "directory:/&directory:/srv",
            "volume:db-1&volume:db-*",
            "volume:db-*&volume:*-1",
            "metadata&free",
        ] {
            assert!(!contradictory(rule), "{rule}");
        }
    }
}
