//! What is wrong with a pool, or needs attention: one list, from small sources, behind `status`, its exit code
//! and the metrics.
//!
//! Invariant: a source reads the catalog, directories of containers and small records, never data. What it cannot
//! find out it says as a finding or not at all; it never says that all is well. Kinds are stable words that
//! monitoring relies on: one is added, none is renamed. A new source is a file here and a line in [`SOURCES`].
//! Called by `status` and the metrics.

mod contents;
mod damage;
mod incomplete;
mod opening;
mod schedule;
mod serving;
mod space;
mod verification;

pub use incomplete::missed_words;
pub use schedule::{SourceState, sources};

use crate::held::Held;
use format::snapshot::Snapshot;
use store::Pool;
use units::UnixNanos;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing is wrong; something could be done.
    Hint,
    /// All that was stored can be read, but somebody has to act.
    Attention,
    /// Something that was stored is lost or damaged.
    Damage,
    /// The pool cannot store what it is asked to.
    Failure,
}

impl Severity {
    /// The state of a pool with nothing worse.
    pub fn state(self) -> &'static str {
        match self {
            Self::Hint => "ONLINE",
            Self::Attention => "DEGRADED",
            Self::Damage => "DAMAGED",
            Self::Failure => "FAILED",
        }
    }

    /// For programs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Hint => "hint",
            Self::Attention => "attention",
            Self::Damage => "damage",
            Self::Failure => "failure",
        }
    }
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// A stable word for programs, such as `verification_overdue`.
    pub kind: &'static str,
    /// What it is about: a volume, a source, a commit; empty: the pool. Text that a terminal can show.
    pub object: String,
    /// What was found, with the object's name. Text that a terminal can show.
    pub text: String,
    /// What to do about it, with the command.
    pub action: String,
}

/// All kinds, for metrics that are there before anything is wrong.
pub const KINDS: [&str; 13] = [
    "writes_fail",
    "writes_lost",
    "writes_kept",
    "commit_lost",
    "snapshots_hidden",
    "data_damaged",
    "data_restorable",
    "copies_damaged",
    "snapshot_incomplete",
    "snapshot_overdue",
    "verification_overdue",
    "disk_fills",
    "empty",
];

/// The same for all pools unless the user says otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Everything should have been verified within so many seconds; 0: never asked for.
    pub verify_within_s: u64,
}

/// A server verifies everything every 30 days by itself; one that could not for half of that time again needs help.
pub const VERIFY_WITHIN_S: u64 = 45 * 86_400;

impl Default for Limits {
    fn default() -> Self {
        Self {
            verify_within_s: VERIFY_WITHIN_S,
        }
    }
}

/// What sources look at.
pub struct Look<'a> {
    /// The pool.
    pub pool: &'a Pool,
    /// The server that holds it and runs this, if there is one.
    pub held: Option<&'a Held>,
    /// The snapshots that can be listed, oldest first.
    pub snapshots: &'a [Snapshot],
    /// Why some cannot.
    pub hidden: Option<&'a str>,
    /// Now, by the pool's clock.
    pub now: UnixNanos,
    /// What counts as overdue.
    pub limits: Limits,
}

/// One source of findings.
type Source = fn(&Look<'_>) -> Vec<Finding>;

/// All of them.
const SOURCES: &[Source] = &[
    serving::find,
    opening::find,
    damage::find,
    contents::find,
    incomplete::find,
    schedule::find,
    verification::find,
    space::find,
];

impl Look<'_> {
    /// Everything that is wrong, the worst first.
    pub fn findings(&self) -> Vec<Finding> {
        let found = SOURCES.iter().flat_map(|source| source(self));
        let mut found: Vec<Finding> = found.collect();
        debug_assert!(found.iter().all(|finding| KINDS.contains(&finding.kind)));
        // Stable: what one source found stays together.
        found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        found
    }
}

/// The worst of them.
pub fn worst(findings: &[Finding]) -> Severity {
    let severities = findings.iter().map(|finding| finding.severity);
    severities.max().unwrap_or(Severity::Hint)
}

#[cfg(test)]
mod tests;
