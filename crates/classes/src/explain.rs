//! Says why a request has its class: what each rule answered, and what follows.
//!
//! The program and the control socket call this, not the path of requests: it allocates.
//! Invariant: the class is the one that `classify` gives (a test compares them).

use crate::condition::Answer as ConditionAnswer;
use crate::facts::Facts;
use crate::policy::Policy;
use crate::rule::{Join, Rule};
use crate::settings::{Admission, ClassSettings, Priority};
use std::fmt;
use units::IoClass;

pub use crate::condition::Answer;

/// Why a request has its class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation<'a> {
    /// The class.
    pub class: IoClass,
    /// Rule that gave it; `unclassified` if none did.
    pub rule: &'a str,
    /// How caches treat it.
    pub settings: ClassSettings,
    /// How the fast tier treats it.
    pub fast: ClassSettings,
    /// Every rule of the policy, in the order in which they are asked.
    pub verdicts: Vec<RuleVerdict<'a>>,
}

/// Result of a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleVerdict<'a> {
    /// Class of the rule.
    pub class: IoClass,
    /// The rule.
    pub rule: &'a str,
    /// Its part in the decision.
    pub outcome: RuleOutcome,
    /// Its conditions in order; none if the rule was not asked.
    pub conditions: Vec<ConditionVerdict<'a>>,
}

/// Part of a rule in the decision.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RuleOutcome {
    /// It gave the class.
    Decides,
    /// It matched, but a later rule matched too.
    Overridden {
        /// Class of the last rule that matched.
        by: IoClass,
    },
    /// It did not match.
    NoMatch,
    /// An earlier rule ended the search.
    NotReached {
        /// Class of that rule.
        ended_by: IoClass,
    },
}

/// Answer of a condition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConditionVerdict<'a> {
    /// The condition.
    pub condition: &'a str,
    /// Its answer.
    pub answer: ConditionAnswer,
}

impl Policy {
    /// Explains the class of a request.
    pub fn explain(&self, facts: &Facts<'_>) -> Explanation<'_> {
        let mut class = IoClass(0);
        let mut deciding = None;
        let mut ended_by = None;
        let mut verdicts: Vec<RuleVerdict<'_>> = Vec::with_capacity(self.rules.len());
        for (nth, rule) in self.rules.iter().enumerate() {
            if let Some(ended_by) = ended_by {
                verdicts.push(verdict(
                    rule,
                    RuleOutcome::NotReached { ended_by },
                    Vec::new(),
                ));
                continue;
            }
            let conditions = ask(rule, facts, class);
            let yes = |condition: &ConditionVerdict<'_>| condition.answer == Answer::Yes;
            let matches = match rule.join {
                Join::All => conditions.iter().all(yes),
                Join::Any => conditions.iter().any(yes),
            };
            if matches {
                class = rule.class;
                deciding = Some(nth);
                ended_by = rule.ends.then_some(rule.class);
            }
            let outcome = match matches {
                true => RuleOutcome::Decides,
                false => RuleOutcome::NoMatch,
            };
            verdicts.push(verdict(rule, outcome, conditions));
        }
        for (nth, verdict) in verdicts.iter_mut().enumerate() {
            if verdict.outcome == RuleOutcome::Decides && Some(nth) != deciding {
                verdict.outcome = RuleOutcome::Overridden { by: class };
            }
        }
        let rule = deciding.and_then(|nth| self.rules.get(nth));
        Explanation {
            class,
            rule: rule.map_or("unclassified", |rule| &rule.text),
            settings: self.settings(class),
            fast: self.fast_settings(class),
            verdicts,
        }
    }
}

fn verdict<'a>(
    rule: &'a Rule,
    outcome: RuleOutcome,
    conditions: Vec<ConditionVerdict<'a>>,
) -> RuleVerdict<'a> {
    RuleVerdict {
        class: rule.class,
        rule: &rule.text,
        outcome,
        conditions,
    }
}

fn ask<'a>(rule: &'a Rule, facts: &Facts<'_>, class: IoClass) -> Vec<ConditionVerdict<'a>> {
    let of = |condition: &'a crate::condition::Condition| ConditionVerdict {
        condition: &condition.text,
        answer: condition.question.answer(facts, class),
    };
    rule.conditions.iter().map(of).collect()
}

impl fmt::Display for ClassSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.share.hundredths() == 0 {
            return f.write_str("allocation 0.00: not cached");
        }
        match self.priority {
            Priority::Pinned => f.write_str("pinned: other classes never evict it")?,
            Priority::Evictable(0) => f.write_str("priority 0: evicted last")?,
            Priority::Evictable(255) => f.write_str("priority 255: evicted first")?,
            Priority::Evictable(priority) => {
                write!(
                    f,
                    "priority {priority} of 255: classes with a higher number are evicted first"
                )?;
            }
        }
        match self.share.hundredths() {
            100 => f.write_str("; may fill the whole cache"),
            hundredths => write!(
                f,
                "; may fill {hundredths} % of the cache, then evicts only its own blocks"
            ),
        }
    }
}

impl fmt::Display for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Never => "takes nothing of it",
            Self::WhileFree => "takes random reads, while it has free space",
            Self::ByPattern => "takes random reads",
            Self::Always => "takes it whatever the access pattern, read and written",
        })
    }
}

impl Explanation<'_> {
    /// Says how the fast tier treats the class.
    pub fn in_fast_tier(&self) -> String {
        let admission = self.fast.admission();
        match self.fast == self.settings || admission == Admission::Never {
            true => admission.to_string(),
            false => format!("{admission}; {}", self.fast),
        }
    }
}

impl fmt::Display for RuleOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decides => f.write_str("matches and decides"),
            Self::Overridden { by } => write!(f, "matches; class {} comes later and wins", by.0),
            Self::NoMatch => f.write_str("does not match"),
            Self::NotReached { ended_by } => {
                write!(
                    f,
                    "not asked: class {} ended the search (&done)",
                    ended_by.0
                )
            }
        }
    }
}

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "class {}: {}", self.class.0, self.rule)?;
        writeln!(f, "  {}", self.settings)?;
        writeln!(f, "  fast tier: {}", self.in_fast_tier())?;
        if self.verdicts.is_empty() {
            return writeln!(f, "The policy has no rules.");
        }
        writeln!(f, "Rules, in the order in which they are asked:")?;
        for verdict in &self.verdicts {
            writeln!(
                f,
                "  {:>2}  {}: {}",
                verdict.class.0, verdict.rule, verdict.outcome
            )?;
            // The answer of a single condition is that of its rule, unless it was not known.
            let is_clear = |c: &ConditionVerdict<'_>| c.answer != Answer::Unknown;
            if verdict.conditions.len() == 1 && verdict.conditions.iter().all(is_clear) {
                continue;
            }
            for ConditionVerdict { condition, answer } in &verdict.conditions {
                writeln!(f, "        {condition}: {answer}")?;
            }
        }
        Ok(())
    }
}
