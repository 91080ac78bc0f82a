//! Deadlines of maintenance: what the run of each task has left, and when it is due. The device
//! learns this before each I/O grant of a task; `status` shows the same.
//!
//! Invariant: what a task found in memory counts as done, so the device is asked only for the rest
//! (DINGO, OSDI'26). A task looks at its own state only, so that none waits for a step of another.

use super::Tasks;
use maintenance::{TaskReport, WorkLeft};
use parking_lot::Mutex;
use qos::Flow;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use units::UnixNanos;

/// Time between two updates of the work that is left.
const TELL_EVERY: Duration = Duration::from_secs(1);
const SECOND_NS: u64 = 1_000_000_000;

/// A deadline of a run in progress.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskDue {
    /// When the run should be complete.
    pub at: UnixNanos,
    /// Bytes to read and write until then, as far as known.
    pub left_bytes: u64,
    /// Share of the device's time that this needs from now on, 0 to 1.
    pub needed: f64,
}

/// When the device last learned what each task has left.
#[derive(Default)]
pub(super) struct LastReported(Mutex<BTreeMap<Flow, Instant>>);

impl Tasks {
    /// Tells the device what a task has left and when that is due, at most once a second.
    pub(super) fn tell_deadline(&self, flow: Flow) {
        let mut reported = self.reported.0.lock();
        if reported
            .get(&flow)
            .is_some_and(|at| at.elapsed() < TELL_EVERY)
        {
            return;
        }
        reported.insert(flow, Instant::now());
        drop(reported);
        let (left_bytes, within) = match self.due_at(flow) {
            Some((work, at)) => (work.bytes, until(self.pool.now(), at)),
            None => (0, Duration::MAX),
        };
        self.device.finish_within(flow, left_bytes, within);
    }

    /// Returns the deadline of a task's run. `None`: it has none, or nothing is in progress.
    pub fn due(&self, flow: Flow) -> Option<TaskDue> {
        self.due_at(flow).map(|(work, at)| TaskDue {
            at,
            left_bytes: work.bytes,
            needed: self.device.needed(flow),
        })
    }

    fn due_at(&self, flow: Flow) -> Option<(WorkLeft, UnixNanos)> {
        let within_s = self.shares().within.of(flow);
        let work = self.work_left(flow).filter(|_| within_s > 0)?;
        let within_ns = within_s.saturating_mul(SECOND_NS);
        let within_ns = i64::try_from(within_ns).unwrap_or(i64::MAX);
        Some((work, UnixNanos(work.began.0.saturating_add(within_ns))))
    }

    fn work_left(&self, flow: Flow) -> Option<WorkLeft> {
        match flow {
            Flow::Scrub => self.scrub.status().left(),
            Flow::Replication => self.copies.left(),
            Flow::Collect => self.collecting.status().running?.left(),
            Flow::Defragment => self.defrag.status()?.run.left(),
            _ => None,
        }
    }
}

/// Returns the time until `at`, at least one second.
fn until(now: UnixNanos, at: UnixNanos) -> Duration {
    let left_ns = u64::try_from(at.0.saturating_sub(now.0)).unwrap_or(0);
    Duration::from_nanos(left_ns.max(SECOND_NS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::CopyState;
    use maintenance::{GcCounts, GcStage, Urgency};
    use terminal::interrupt::Interrupt;

    #[test]
    fn every_task_has_a_deadline_while_it_runs() {
        let top = tempfile::tempdir().unwrap();
        let server = crate::metrics::tests::server_state(top.path());
        let keys = ["scrub", "copy", "gc", "defrag"].map(|task| format!("{task}-within=1h"));
        let shares = server.tasks.shares().with(&keys).unwrap();
        server.tasks.set_shares(shares).unwrap();
        let flows = [
            Flow::Replication,
            Flow::Collect,
            Flow::Scrub,
            Flow::Defragment,
        ];
        assert!(flows.iter().all(|flow| server.tasks.due(*flow).is_none()));
        let now = server.pool.now();
        let _copy = server.tasks.copies.begin(CopyState {
            began: now,
            total_bytes: 3000 << 30,
            done_bytes: 1 << 30,
            ..CopyState::default()
        });
        let interrupt = Interrupt::of_command().unwrap();
        let gc = server.tasks.collecting.begin(&interrupt).unwrap();
        gc.tell(GcStage::Copying, GcCounts::default(), 5 << 30);
        server.tasks.scrub.start(None).unwrap();
        let due = |flow: Flow| {
            server.tasks.tell_deadline(flow);
            server.tasks.due(flow).unwrap()
        };
        let copy = due(Flow::Replication);
        assert_eq!(copy.left_bytes, 2999 << 30);
        assert_eq!(copy.at.0, now.0 + 3_600_000_000_000);
        assert!((0.4..0.5).contains(&copy.needed), "{copy:?}: 3 TB, 2 GB/s");
        let gc_due = due(Flow::Collect);
        assert_eq!(gc_due.left_bytes, 10 << 30, "read and written");
        assert!(gc_due.needed > 0.0 && gc_due.needed < copy.needed);
        assert_eq!(
            due(Flow::Scrub).at.0 - server.tasks.scrub.status().pass.began.0,
            3_600_000_000_000
        );
        drop(gc);
        server.tasks.scrub.pause().unwrap();
        server.tasks.copies.pause(true);
        assert!(flows.iter().all(|flow| server.tasks.due(*flow).is_none()));
    }

    #[test]
    fn an_urgent_run_of_gc_keeps_the_largest_share() {
        let top = tempfile::tempdir().unwrap();
        let server = crate::metrics::tests::server_state(top.path());
        let shares = server.tasks.shares().with(&["gc-within=1h"]).unwrap();
        server.tasks.set_shares(shares).unwrap();
        let gc = server
            .tasks
            .collecting
            .begin_by_itself(Urgency::Full)
            .unwrap();
        gc.tell(GcStage::Copying, GcCounts::default(), 1 << 30);
        assert_eq!(server.tasks.due(Flow::Collect), None);
        drop(gc);
        let gc = server
            .tasks
            .collecting
            .begin_by_itself(Urgency::WhenIdle)
            .unwrap();
        gc.tell(GcStage::Copying, GcCounts::default(), 1 << 30);
        assert!(server.tasks.due(Flow::Collect).is_some());
    }
}
