//! The world with deadlines: each task should be complete in a time of its own. The grid calls
//! this.
//!
//! Invariant: the scheduler learns each second what each task has left and when that is due, as the
//! server's threads report it.

use super::super::settings::{CHUNKS, Kind};
use super::World;
use crate::disk::{Ns, SECOND};

/// Result of a run with deadlines.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DueOutcome {
    /// Bytes that the tasks read from the disk.
    pub read_bytes: u64,
    /// Bytes that their finished work would have read with nothing in memory.
    pub work_bytes: u64,
    /// Tasks that were complete in time, and all tasks.
    pub met: (usize, usize),
    /// 99th percentile of the latencies of the web server's reads while tasks ran.
    pub web_p99: Ns,
}

impl World {
    /// Runs tasks until the last deadline at most. Each task has a time in which it should be
    /// complete. If it `shares`, it takes what others read from memory. Without tasks: for `alone`.
    pub fn with_deadlines(mut self, tasks: &[(Kind, Ns)], shares: bool, alone: Ns) -> DueOutcome {
        self.advance(self.settings.warm_up);
        self.latencies.clear();
        let kinds: Vec<Kind> = tasks.iter().map(|(kind, _)| *kind).collect();
        self.begin(&kinds, shares);
        let began = self.now;
        for (run, (_, within)) in self.runs.iter_mut().zip(tasks) {
            run.deadline = Some(began + within);
        }
        let last = tasks.iter().map(|(_, within)| *within).max();
        let end = began + last.unwrap_or(alone);
        while self.now < end && (tasks.is_empty() || self.is_under_way()) {
            self.tell_deadlines();
            self.advance((self.now + SECOND).min(end));
        }
        self.due_outcome()
    }

    fn is_under_way(&self) -> bool {
        self.runs.iter().any(|run| run.finished_at.is_none())
    }

    fn tell_deadlines(&mut self) {
        let Some(product) = &mut self.product else {
            return;
        };
        for (nth, run) in self.runs.iter().enumerate() {
            let files = run.task.files();
            let done = run.driver.status(0).counts.pages_done / CHUNKS;
            let waiting: u64 = run.task.wishes.iter().map(|w| w.request.bytes).sum();
            let left = run.task.bytes() / files.max(1) * files.saturating_sub(done) + waiting;
            if let Some(deadline) = run.deadline {
                product.finish_by(nth, run.task.kind(), left, deadline);
            }
        }
    }

    fn due_outcome(mut self) -> DueOutcome {
        let mut outcome = DueOutcome::default();
        for run in &self.runs {
            let reads = run.task.wishes.iter().filter(|w| !w.request.is_write);
            let waiting: u64 = reads.map(|wish| wish.request.bytes).sum();
            let done = run.driver.status(0).counts.pages_done / CHUNKS;
            outcome.read_bytes += run.task.read_bytes - waiting;
            outcome.work_bytes += done * super::FILE_BYTES - waiting;
            let is_met = run.finished_at.is_some_and(|at| Some(at) <= run.deadline);
            outcome.met.0 += usize::from(is_met);
            outcome.met.1 += 1;
        }
        self.latencies.sort_unstable();
        let at = self.latencies.len() * 99 / 100;
        outcome.web_p99 = self.latencies.get(at).copied().unwrap_or(0);
        outcome
    }
}
