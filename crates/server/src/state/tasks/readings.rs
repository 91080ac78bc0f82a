//! Readings of the maintenance tasks of a server: activity, progress, and bytes by where they were
//! found. [`crate::state::Live`] calls this, for `status`, `top` and the metrics.
//!
//! Invariant: bytes are counted since the server began and never decrease.

use super::{CollectStatus, CopyState, DefragStatus, TaskDue, Tasks};
use format::phase::TaskPhase;
use maintenance::{ScrubStatus, TaskBytes, TaskReport, share};
use qos::Flow;

/// Reading of one task.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TaskReading {
    /// Name of the task in the metrics.
    pub name: &'static str,
    /// The task is in progress, or waits for the device.
    pub is_under_way: bool,
    /// Completed share of the current run, 0 to 1; 0 at rest. `None` if the total is unknown.
    pub progress: Option<f64>,
    /// Bytes processed since the server began.
    pub bytes: TaskBytes,
    /// Deadline of the current run, if it has one.
    pub due: Option<TaskDue>,
}

impl Tasks {
    /// Returns the readings of all tasks.
    pub(in crate::state) fn readings(
        &self,
        scrub: &ScrubStatus,
        collect: &CollectStatus,
        defrag: Option<&DefragStatus>,
    ) -> [TaskReading; 4] {
        let copies = self.copies.states();
        let sum = |of: fn(&CopyState) -> u64| copies.iter().map(of).sum();
        let collected = collect.running.map(|run| run.totals().bytes);
        let collected = collect.totals.copied.plus(collected.unwrap_or_default());
        let defrag = defrag.map(|status| &status.run);
        [
            self.reading(Some(scrub), self.scrub.totals().bytes),
            TaskReading {
                progress: None,
                ..self.reading(collect.running.as_ref(), collected)
            },
            TaskReading {
                name: "copy",
                is_under_way: copies.iter().any(|copy| !copy.is_paused),
                progress: Some(share(sum(|c| c.done_bytes), sum(|c| c.total_bytes))),
                bytes: self.copies.totals(),
                due: self.due(Flow::Replication),
            },
            self.reading(defrag, self.defrag.totals().bytes),
        ]
    }

    /// Returns the reading of a task: of its run in progress, or else the last one, if known.
    pub(super) fn reading<R: TaskReport>(&self, run: Option<&R>, bytes: TaskBytes) -> TaskReading {
        TaskReading {
            name: R::NAME,
            is_under_way: run.is_some_and(|run| run.phase() == TaskPhase::UnderWay),
            progress: Some(run.map_or(0.0, TaskReport::progress)),
            bytes,
            due: self.due(R::FLOW),
        }
    }
}
