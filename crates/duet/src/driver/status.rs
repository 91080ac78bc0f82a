//! Results of steps, and the state of a driver. Maintenance shows them.
//!
//! Invariant: reading them changes nothing.

use super::{Driver, Phase};
use crate::progress::{TaskCounts, TaskProgress};
use crate::task::Processed;
use crate::work::Work;

/// Result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriverStep<E> {
    /// It processed a unit.
    Worked {
        /// The unit.
        work: Work,
        /// The amount of work.
        processed: Processed,
    },
    /// A unit failed. It is skipped until a driver is made from the progress.
    Failed {
        /// The unit.
        work: Work,
        /// The cause.
        error: E,
    },
    /// No unit that is left is completely in memory: the next step needs an I/O grant.
    NeedsDevice,
    /// It fetched events and skipped done units: step again.
    Looked,
    /// The rate limit allows no bytes now. Events are fetched all the same.
    Waiting {
        /// When it allows them, nanoseconds.
        until_ns: u64,
    },
    /// The driver is paused.
    Paused,
    /// All units are done or have failed. Further steps still learn which units became stale.
    Finished,
    /// The driver was cancelled.
    Cancelled,
}

/// State of a driver.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Status {
    /// Totals since the task first began.
    pub counts: TaskCounts,
    /// Number of failed units.
    pub failed: u128,
    /// Number of units with pages in memory.
    pub queued: usize,
    /// Number of units that found no space in the queue and were left to the own order.
    pub overlooked: u64,
    /// Seconds to the end at the present pace; `None` while unknown.
    pub eta_s: Option<f64>,
    /// The driver is paused.
    pub is_paused: bool,
}

impl Driver {
    /// Returns the state. `pages_total`: pages of the whole task.
    pub fn status(&self, pages_total: u64) -> Status {
        let left = pages_total.saturating_sub(self.counts.pages_done);
        Status {
            counts: self.counts,
            failed: self.failed.len(),
            queued: self.queue.len(),
            overlooked: self.queue.overlooked(),
            eta_s: self.pace.estimate_s(left),
            is_paused: self.phase == Phase::Paused,
        }
    }

    /// Returns the state to store for a restart.
    pub fn progress(&self) -> TaskProgress {
        let first = self.ahead.front();
        let mut again = self.again.clone();
        for work in self.current.iter().chain(&self.left) {
            again.insert(*work);
        }
        TaskProgress {
            position: first.map_or(self.reached.0, |ahead| ahead.after),
            done: self.session.all_done(),
            failed: self.failed.clone(),
            again,
            counts: self.counts,
        }
    }
}
