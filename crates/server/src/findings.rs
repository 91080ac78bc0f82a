//! Findings: what is wrong with a pool or needs attention, as one list from several sources.
//! `status`, its exit code and the metrics call this.
//!
//! Invariant: a source reads the catalog, container directories and small records, never data. A
//! check that fails is a finding or is silent, and never reports that all is well. Kinds are stable
//! words for monitoring: they are added, not renamed. A new source is a file here and a line in
//! [`SOURCES`].

mod access;
mod cache;
mod clock;
mod contents;
mod damage;
mod failed_streams;
mod incomplete;
mod opening;
mod reservations;
mod schedule;
mod serving;
mod shrunk;
mod space;
mod verification;

pub use cache::{FindingsCache, PoolFindings};
pub use incomplete::missed_words;
pub use schedule::{SourceState, sources};

use format::snapshot::Snapshot;
use store::Pool;
use units::UnixNanos;
use volumes::Volumes;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing is wrong; something could be done.
    Hint,
    /// All stored data can be read, but an administrator must act.
    Attention,
    /// Stored data is lost or damaged.
    Damage,
    /// The pool cannot store new data.
    Failure,
}

impl Severity {
    /// Returns the state of a pool whose worst finding has this severity.
    pub fn state(self) -> &'static str {
        match self {
            Self::Hint => "ONLINE",
            Self::Attention => "DEGRADED",
            Self::Damage => "DAMAGED",
            Self::Failure => "FAILED",
        }
    }

    /// Returns the word for programs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Hint => "hint",
            Self::Attention => "attention",
            Self::Damage => "damage",
            Self::Failure => "failure",
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Severity of the finding.
    pub severity: Severity,
    /// Stable word for programs, such as `verification_overdue`.
    pub kind: &'static str,
    /// The volume, source or commit concerned. Empty for the pool. Safe to print on a terminal.
    pub object: String,
    /// The finding, with the object's name. Safe to print on a terminal.
    pub text: String,
    /// The action to take, with its command.
    pub action: String,
}

/// All kinds, so that metrics exist before anything is wrong.
pub const KINDS: [&str; 22] = [
    "writes_fail",
    "writes_lost",
    "writes_kept",
    "journal_elsewhere",
    "commit_lost",
    "snapshots_hidden",
    "data_damaged",
    "data_restorable",
    "copies_damaged",
    "snapshot_incomplete",
    "files_changed",
    "stream_shrank",
    "stream_failed",
    "snapshot_overdue",
    "snapshot_in_future",
    "verification_overdue",
    "disk_fills",
    "inodes_run_out",
    "disk_read_only",
    "iscsi_access_refused",
    "reservations_unknown",
    "empty",
];

/// Limits of the checks.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Everything should have been verified within this time, seconds. 0: no limit.
    pub verify_within_s: u64,
}

/// Default of [`Limits::verify_within_s`]. A server verifies everything every 30 days; one that is
/// late by half of that needs attention.
pub const VERIFY_WITHIN_S: u64 = 45 * 86_400;

impl Default for Limits {
    fn default() -> Self {
        Self {
            verify_within_s: VERIFY_WITHIN_S,
        }
    }
}

/// Facts that only a running server knows.
pub struct LiveFacts<'a> {
    /// The open volumes.
    pub volumes: &'a Volumes,
    /// Messages about what fails at the moment.
    pub failing: Vec<String>,
    /// Why the file of iSCSI access is not in force as it is now.
    pub iscsi_access: Option<String>,
    /// When the last verification began that has verified everything.
    pub verified: Option<UnixNanos>,
}

/// Input of the sources.
pub struct FindingsInput<'a> {
    /// The pool.
    pub pool: &'a Pool,
    /// Facts of the server, if one runs this.
    pub server: Option<LiveFacts<'a>>,
    /// The readable snapshots, oldest first.
    pub snapshots: &'a [Snapshot],
    /// Reason why other snapshots cannot be read.
    pub hidden: Option<&'a str>,
    /// The present time of the pool's clock.
    pub now: UnixNanos,
    /// Limits of the checks.
    pub limits: Limits,
}

/// A source of findings.
type Source = fn(&FindingsInput<'_>) -> Vec<Finding>;

/// All sources.
const SOURCES: &[Source] = &[
    serving::find,
    opening::find,
    damage::find,
    contents::find,
    incomplete::find,
    failed_streams::find,
    shrunk::find,
    schedule::find,
    clock::find,
    verification::find,
    space::find,
    access::find,
    reservations::find,
];

impl FindingsInput<'_> {
    /// Returns all findings, the worst first.
    pub fn findings(&self) -> Vec<Finding> {
        let found = SOURCES.iter().flat_map(|source| source(self));
        let mut found: Vec<Finding> = found.collect();
        debug_assert!(found.iter().all(|finding| KINDS.contains(&finding.kind)));
        // The sort is stable: findings of one source stay together.
        found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        found
    }
}

/// Returns the severity of the worst finding, or [`Severity::Hint`] without findings.
pub fn worst(findings: &[Finding]) -> Severity {
    let severities = findings.iter().map(|finding| finding.severity);
    severities.max().unwrap_or(Severity::Hint)
}

#[cfg(test)]
mod tests;
