//! What a step has done, and how far a driver has come.

use super::{Driver, Phase};
use crate::progress::{Counts, Progress};
use crate::task::Processed;
use crate::work::Work;

/// What a step has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step<E> {
    /// Some work.
    Worked {
        /// Which.
        work: Work,
        /// How much of it.
        processed: Processed,
    },
    /// Some work failed. It is left aside until a driver is made from the progress.
    Failed {
        /// Which.
        work: Work,
        /// Why.
        error: E,
    },
    /// Nothing that is left to do is in memory as a whole: it goes on when it is its turn at the device.
    NeedsDevice,
    /// It heard of pages and passed over work that is done: step again.
    Looked,
    /// The rate limit does not allow more now; events are heard nevertheless.
    Waiting {
        /// When it does, nanoseconds.
        until_ns: u64,
    },
    /// It is paused.
    Paused,
    /// All work is done, or has failed. Steps go on hearing what has to be done again.
    Finished,
    /// It was cancelled.
    Cancelled,
}

/// How far a driver has come.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Status {
    /// What was done, since the first beginning.
    pub counts: Counts,
    /// Works that failed.
    pub failed: u128,
    /// Works of which something is in memory.
    pub queued: usize,
    /// Works that found no room in the queue, and were left to the own order.
    pub overlooked: u64,
    /// Seconds to the end at the present pace; `None` while it is not known.
    pub eta_s: Option<f64>,
    /// It is paused.
    pub is_paused: bool,
}

impl Driver {
    /// How far it is, when the whole task has `pages_total` pages.
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

    /// What has to be kept to go on after a restart.
    pub fn progress(&self) -> Progress {
        let first = self.ahead.front();
        let mut again = self.again.clone();
        self.current.map(|work| again.insert(work));
        Progress {
            position: first.map_or(self.reached.0, |ahead| ahead.after),
            done: self.session.all_done(),
            failed: self.failed.clone(),
            again,
            counts: self.counts,
        }
    }
}
