//! Configuration and report of an exploration. `explore`, which divides the work, and `block`,
//! which does it, use them.
//!
//! Invariant: an explorer's fields are its whole configuration.

use crate::crash::CrashPoint;
use crate::disk::SimDisk;
use crate::image::Image;
use crate::plan::Plan;
use crate::record::Recording;
use crate::seed::Seed;
use media::Barrier;
use std::fmt;
use std::ops::AddAssign;
use std::sync::Arc;

/// Configuration of an exploration.
#[derive(Clone, Debug)]
pub struct Explorer {
    /// Selects crash points and outcomes if there are too many for all.
    pub seed: u64,
    /// Number of states to check, not counting those in recoveries.
    pub states_max: usize,
    /// Number of consecutive power losses during recovery; 0 explores none.
    pub recovery_depth: u32,
    /// One in this many states has its recovery explored.
    pub recovery_every: usize,
    /// Number of states to check in one recovery.
    pub recovery_states_max: usize,
    /// Threads; 0 counts as 1.
    pub threads: usize,
    /// Stops after this many failures.
    pub failures_max: usize,
    /// The barrier to leave out: a canary.
    pub without: Option<Barrier>,
}

/// One power loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Number of operations of the log before it.
    pub position: usize,
    /// The pending changes that it keeps.
    pub plan: Plan,
}

/// A state that the scenario's check refused.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The explorer's seed.
    pub seed: u64,
    /// The power losses that lead to it: the first in the history, others in recoveries.
    /// [`Explorer::replay`] takes them.
    pub steps: Vec<Step>,
    /// The first operation that did not happen.
    pub at: String,
    /// The pending operations and their outcomes.
    pub pending: Vec<String>,
    /// Message of the check.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, steps {:?}", self.seed, self.steps)?;
        writeln!(f, "  before: {}", self.at)?;
        for line in &self.pending {
            writeln!(f, "  {line}")?;
        }
        write!(f, "  {}", self.message)
    }
}

/// Result of an exploration.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Crash points.
    pub points: usize,
    /// Different states checked.
    pub states: usize,
    /// Different states checked after a power loss during recovery.
    pub recovery_states: usize,
    /// States not checked, because the same state was checked with the same expectation.
    pub duplicates: usize,
    /// Maximum number of pending operations at one crash point.
    pub pending_max: usize,
    /// The first failures.
    pub failures: Vec<Failure>,
}

impl AddAssign for Report {
    fn add_assign(&mut self, other: Self) {
        self.points += other.points;
        self.states += other.states;
        self.recovery_states += other.recovery_states;
        self.duplicates += other.duplicates;
        self.pending_max = self.pending_max.max(other.pending_max);
        self.failures.extend(other.failures);
    }
}

impl Report {
    /// Panics with the first failures, if there are any.
    pub fn expect_none(&self) {
        let texts: Vec<String> = self.failures.iter().map(Failure::to_string).collect();
        assert!(
            texts.is_empty(),
            "{} failures:\n{}",
            texts.len(),
            texts.join("\n")
        );
    }
}

impl Explorer {
    /// Without crashes in recovery, on one thread.
    pub fn new(seed: u64, states_max: usize) -> Self {
        Self {
            seed,
            states_max,
            recovery_depth: 0,
            recovery_every: 16,
            recovery_states_max: 64,
            threads: 1,
            failures_max: 3,
            without: None,
        }
    }

    /// Creates the disk of a program that lacks the barrier to leave out.
    pub(crate) fn disk(&self, image: Image, recording: bool) -> Arc<SimDisk> {
        let disk = if recording {
            SimDisk::on(image)
        } else {
            SimDisk::unrecorded(image)
        };
        match self.without {
            Some(point) => disk.without(point),
            None => disk,
        }
    }

    pub(crate) fn failure(&self, steps: &[Step], point: &CrashPoint, found: Found) -> Failure {
        Failure {
            seed: self.seed,
            steps: steps.to_vec(),
            at: found.at,
            pending: point.describe(found.plan),
            message: found.message,
        }
    }
}

/// Details of a failed check, for the report.
pub(crate) struct Found {
    pub(crate) at: String,
    pub(crate) plan: Plan,
    pub(crate) message: String,
}

/// Returns at most `count` positions from `start` on, with preference for those directly before and
/// after a sync.
pub(crate) fn choose(
    recording: &Recording,
    start: usize,
    count: usize,
    seed: &mut Seed,
) -> Vec<usize> {
    let beside_sync = |at: &usize| {
        let sync = |at: usize| {
            recording
                .log
                .get(at)
                .is_some_and(|entry| entry.sync().is_some())
        };
        sync(*at) || at.checked_sub(1).is_some_and(sync)
    };
    let (mut points, mut others): (Vec<usize>, Vec<usize>) =
        (start..=recording.log.len()).partition(beside_sync);
    seed.shuffle(&mut others);
    if points.len() > count {
        seed.shuffle(&mut points);
    }
    points.append(&mut others);
    points.truncate(count);
    points.sort_unstable();
    points
}
