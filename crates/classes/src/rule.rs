//! A rule: conditions joined by `&` or by `|`, and whether it ends the search.
//!
//! `policy` reads and asks rules.
//! Invariant: a rule joins its conditions in one way. Open CAS documents a mixture as undefined, so
//! it is refused here.

use crate::condition::{Answer, Condition, Kinds, contradict, parse};
use crate::error::Problem;
use crate::facts::Facts;
use units::IoClass;

/// Longest rule, as in Open CAS.
pub(crate) const RULE_BYTES_MAX: usize = 1024;

/// How conditions are joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Join {
    All,
    Any,
}

/// A rule. Without conditions (`done`) it matches everything.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rule {
    pub(crate) class: IoClass,
    pub(crate) text: Box<str>,
    pub(crate) join: Join,
    pub(crate) conditions: Box<[Condition]>,
    /// `&done`: if it matches, later rules are not asked.
    pub(crate) ends: bool,
}

impl Rule {
    pub(crate) fn parse(class: IoClass, text: &str) -> Result<Self, Problem> {
        let text = text.trim();
        if text.len() > RULE_BYTES_MAX {
            let bytes_max = RULE_BYTES_MAX;
            return Err(Problem::RuleTooLong { bytes_max });
        }
        let (asked, ends) = match text.strip_suffix("done").map(str::trim_end) {
            Some("") => ("", true),
            Some(before) => match before.strip_suffix('&') {
                Some(asked) => (asked, true),
                None if before.ends_with('|') => return Err(Problem::Done),
                None => (text, false),
            },
            None => (text, false),
        };
        let join = match (asked.contains('&'), asked.contains('|')) {
            (true, true) => return Err(Problem::Mixed),
            (_, true) => Join::Any,
            _ => Join::All,
        };
        let conditions = match asked {
            "" if ends && text.len() == "done".len() => Box::default(),
            _ => asked
                .split(['&', '|'])
                .map(condition)
                .collect::<Result<_, _>>()?,
        };
        Ok(Self {
            class,
            text: text.into(),
            join,
            conditions,
            ends,
        })
    }

    /// Returns true if the rule matches a request to which earlier rules gave `class`.
    #[inline]
    pub(crate) fn matches(&self, facts: &Facts<'_>, class: IoClass) -> bool {
        let mut conditions = self.conditions.iter();
        let holds = |condition: &Condition| condition.question.answer(facts, class) == Answer::Yes;
        match self.join {
            Join::All => conditions.all(holds),
            Join::Any => conditions.any(holds),
        }
    }

    /// Returns the kinds of contents and the directions for which the rule can match: bit of the
    /// kind, reads in the first mask and writes in the second.
    pub(crate) fn possible(&self) -> (Kinds, Kinds) {
        let of = |condition: &Condition| {
            let kinds = match contradict(std::slice::from_ref(condition)) {
                true => Kinds(0),
                false => condition.question.kinds(),
            };
            let (reads, writes) = condition.question.directions();
            let only = |possible: bool| if possible { kinds.0 } else { 0 };
            (only(reads), only(writes))
        };
        let masks = self.conditions.iter().map(of);
        let (reads, writes) = match self.join {
            Join::All if contradict(&self.conditions) => (0, 0),
            Join::All => masks.fold((Kinds::ALL.0, Kinds::ALL.0), |all, mask| {
                (all.0 & mask.0, all.1 & mask.1)
            }),
            Join::Any => masks.fold((0, 0), |any, mask| (any.0 | mask.0, any.1 | mask.1)),
        };
        (Kinds(reads), Kinds(writes))
    }
}

fn condition(text: &str) -> Result<Condition, Problem> {
    match text.trim() {
        "done" => Err(Problem::Done),
        text => parse(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Contents;

    fn rule(text: &str) -> Result<Rule, Problem> {
        Rule::parse(IoClass(1), text)
    }

    #[test]
    fn conditions_are_joined_in_one_way() {
        let both = rule("file_size:gt:10&file_size:lt:20").expect("a rule");
        let any = rule("file_size:lt:10|metadata").expect("a rule");
        let facts = |size_bytes| Facts {
            contents: Contents::File {
                size_bytes,
                offset_bytes: 0,
            },
            ..Facts::default()
        };
        let matches = |rule: &Rule, size| rule.matches(&facts(size), IoClass(0));
        assert_eq!(
            [5, 15, 25].map(|size| matches(&both, size)),
            [false, true, false]
        );
        assert_eq!(
            [5, 15, 25].map(|size| matches(&any, size)),
            [true, false, false]
        );
        assert_eq!(rule("metadata|direct&wire:1"), Err(Problem::Mixed));
    }

    #[test]
    fn done_ends_a_rule_and_stands_nowhere_else() {
        assert!(rule("metadata&done").expect("a rule").ends);
        assert!(rule("metadata|direct & done").expect("a rule").ends);
        assert!(!rule("file_name_prefix:done").expect("a rule").ends);
        let all = rule("done").expect("a rule");
        assert!(all.ends && all.matches(&Facts::default(), IoClass(0)));
        for wrong in [
            "metadata|done",
            "done&metadata",
            "metadata&done&done",
            "done|metadata",
        ] {
            assert_eq!(rule(wrong), Err(Problem::Done), "{wrong}");
        }
        for wrong in ["", "&done", "metadata&", "metadata&&direct", "|metadata"] {
            assert_eq!(rule(wrong), Err(Problem::Empty), "{wrong}");
        }
        let long = "metadata|".repeat(200) + "metadata";
        assert!(matches!(rule(&long), Err(Problem::RuleTooLong { .. })));
    }

    #[test]
    fn only_contents_that_can_match_are_possible() {
        let possible = |text| rule(text).expect("a rule").possible();
        let file = Kinds::FILE;
        assert_eq!(possible("file_size:le:1"), (file, file));
        assert_eq!(
            possible("file_size:le:1&io_direction:read"),
            (file, Kinds(0))
        );
        let either = Kinds(Kinds::FREE.0 | Kinds::JOURNAL.0);
        assert_eq!(possible("free|journal"), (either, either));
        assert_eq!(possible("metadata&file_size:le:1").0, Kinds(0));
        assert_eq!(possible("done"), (Kinds::ALL, Kinds::ALL));
    }
}
