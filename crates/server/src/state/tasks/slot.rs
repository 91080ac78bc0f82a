//! A maintenance task of a server: a run that a thread works on, that commands control, and that
//! `status` and the metrics read. Scrub and defragmentation have one each.
//!
//! Invariant: at most one run at a time. The lock is not held during a step, because a step waits
//! for the device. A run that is paused, or in progress when the server ends, is recorded in the
//! pool.
//!
//! ```text
//! begin, resume --> run --- step_with --> at_work --> run ... --> last (finished, failed)
//! stop: waits until the thread has put `run` back, then moves it to `last`
//! leave: the thread itself moves `run` to `last` when the server ends
//! ```

use super::TaskError;
use format::phase::TaskPhase;
use maintenance::{Access, ControlledTask, MaintenanceTask, TaskReport, TaskStep, TaskTotals};
use parking_lot::{Condvar, Mutex, MutexGuard};
use qos::Flow;
use std::sync::Arc;
use std::time::Duration;
use store::{Pool, StoreError};
use units::UnixNanos;

/// RunOutcome of a run that is not in progress.
#[derive(Clone, Debug, Default)]
pub enum RunOutcome {
    /// The run has finished, was cancelled or is paused: its phase says which.
    #[default]
    Stopped,
    /// The run failed with this error and is paused.
    Failed(String),
    /// The server ended. The next server resumes the run.
    LeftBehind,
}

/// Snapshot of the state for `status`, `top` and the metrics.
#[derive(Clone, Debug)]
pub struct TaskStatus<R> {
    /// The run in progress, or else the last run.
    pub run: R,
    /// RunOutcome of the last run.
    pub outcome: RunOutcome,
}

struct SlotState<T: ControlledTask> {
    /// The run in progress, between two steps.
    run: Option<T>,
    /// Set while the thread works on a step: the run as it was before the step.
    at_work: Option<T::Report>,
    /// The last run, if none is in progress.
    last: Option<T::Report>,
    outcome: RunOutcome,
    /// Totals of this server.
    totals: TaskTotals,
    /// A failure to record a run that goes on, or is complete, all the same.
    unrecorded: Option<StoreError>,
    /// The server is ending and begins no run.
    is_closed: bool,
}

impl<T: ControlledTask> SlotState<T> {
    fn is_running(&self) -> bool {
        self.run.is_some() || self.at_work.is_some()
    }

    fn check_free(&self) -> Result<(), TaskError> {
        match self.is_running() {
            false => Ok(()),
            true => Err(TaskError::Running {
                task: T::Report::NAME,
                doing: T::Report::DOING,
            }),
        }
    }
}

/// See the module's head.
pub struct TaskSlot<T: ControlledTask> {
    pool: Arc<Pool>,
    state: Mutex<SlotState<T>>,
    changed: Condvar,
}

impl<T: ControlledTask> TaskSlot<T> {
    /// Reads the state that the last server recorded.
    pub fn of(pool: &Arc<Pool>) -> Self {
        Self {
            pool: Arc::clone(pool),
            state: Mutex::new(SlotState {
                run: None,
                at_work: None,
                last: T::last_recorded(pool),
                outcome: RunOutcome::default(),
                totals: TaskTotals::default(),
                unrecorded: None,
                is_closed: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// Locks the state between two steps of the thread.
    fn between_steps(&self) -> MutexGuard<'_, SlotState<T>> {
        let mut state = self.state.lock();
        while state.at_work.is_some() {
            self.changed.wait(&mut state);
        }
        state
    }

    /// Returns an error if a run is in progress.
    pub fn is_free(&self) -> Result<(), TaskError> {
        self.state.lock().check_free()
    }

    /// Begins or resumes a run. Returns its begin time, which identifies it.
    pub fn begin(&self, mut run: T) -> Result<UnixNanos, TaskError> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(TaskError::Ending);
        }
        state.check_free()?;
        run.record()?;
        let began = run.report(TaskPhase::UnderWay).began();
        state.run = Some(run);
        state.outcome = RunOutcome::Stopped;
        drop(state);
        self.changed.notify_all();
        Ok(began)
    }

    /// Calls `change` with the run in progress, between two steps. Returns false if there is none.
    pub fn change(&self, change: impl FnOnce(&mut T)) -> bool {
        match &mut self.between_steps().run {
            Some(run) => change(run),
            None => return false,
        }
        true
    }

    /// Resumes the unfinished run, or changes the rate limit of the run in progress. Returns false
    /// if there is no run. `take_up` restores the run from its record.
    pub fn resume(
        &self,
        limit: Option<u64>,
        take_up: impl FnOnce() -> Result<Option<T>, StoreError>,
    ) -> Result<bool, TaskError> {
        let set_limit = |run: &mut T| {
            if limit.is_some() {
                run.limit(limit);
            }
        };
        if self.change(set_limit) {
            return Ok(true);
        }
        let Some(mut run) = take_up()? else {
            return Ok(false);
        };
        set_limit(&mut run);
        self.begin(run)?;
        Ok(true)
    }

    /// Returns true if a process died during a run.
    pub fn is_left_under_way(&self) -> bool {
        let state = self.state.lock();
        let last = state.last.as_ref().map(TaskReport::phase);
        !state.is_running() && last == Some(TaskPhase::UnderWay)
    }

    /// Pauses or cancels the run, as `phase` says, or the one that an earlier process has left.
    /// Returns false if there is none.
    pub fn stop(&self, phase: TaskPhase) -> Result<bool, TaskError> {
        if self.stop_running(phase)? {
            return Ok(true);
        }
        let mut state = self.state.lock();
        let Some(stopped) = T::stop_recorded(&self.pool, phase)? else {
            return Ok(false);
        };
        self.put(&mut state, stopped, RunOutcome::Stopped);
        Ok(true)
    }

    /// The same for a run in progress in this server only.
    pub fn stop_running(&self, phase: TaskPhase) -> Result<bool, TaskError> {
        let mut state = self.between_steps();
        let Some(mut run) = state.run.take() else {
            return Ok(false);
        };
        let stopped = run.stop(phase);
        self.put(&mut state, run.report(phase), RunOutcome::Stopped);
        stopped?;
        Ok(true)
    }

    fn put(&self, state: &mut SlotState<T>, run: T::Report, outcome: RunOutcome) {
        state.last = Some(run);
        state.outcome = outcome;
        self.changed.notify_all();
    }

    /// Records the progress, or asks the run for a state that can be recorded.
    pub fn record(&self) -> Result<(), StoreError> {
        match &mut self.state.lock().run {
            Some(run) => {
                run.settle_soon();
                run.record()
            }
            None => Ok(()),
        }
    }

    /// Takes the last failure to record a run.
    pub fn take_unrecorded(&self) -> Option<StoreError> {
        self.state.lock().unrecorded.take()
    }

    /// Ends the work for this server. The next server resumes the run.
    pub fn leave(&self) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        state.is_closed = true;
        let Some(mut run) = state.run.take() else {
            return Ok(());
        };
        let left = run.stop(TaskPhase::UnderWay);
        let report = run.report(TaskPhase::UnderWay);
        self.put(&mut state, report, RunOutcome::LeftBehind);
        left
    }

    /// Waits for a change, at most `at_most`. Returns at once if a run is in progress or `unless()`
    /// is true.
    pub fn wait(&self, at_most: Duration, unless: impl FnOnce() -> bool) {
        let mut state = self.state.lock();
        if state.is_running() || unless() {
            return;
        }
        self.changed.wait_for(&mut state, at_most);
    }

    /// Ends a wait.
    pub fn wake(&self) {
        let _state = self.state.lock();
        self.changed.notify_all();
    }

    /// Returns the totals of this server.
    pub fn totals(&self) -> TaskTotals {
        self.state.lock().totals
    }

    /// Returns the state. `None` if no run is known.
    pub fn status(&self) -> Option<TaskStatus<T::Report>> {
        let state = self.state.lock();
        let run = match &state.run {
            Some(run) => Some(run.report(TaskPhase::UnderWay)),
            None => state.at_work.as_ref().or(state.last.as_ref()).cloned(),
        };
        run.map(|run| TaskStatus {
            run,
            outcome: state.outcome.clone(),
        })
    }
}

/// Works one step on the run in progress. Records its progress and its end.
impl<T: ControlledTask> MaintenanceTask for &TaskSlot<T> {
    type News = T::News;
    type Error = StoreError;

    fn flow(&self) -> Flow {
        T::Report::FLOW
    }

    fn step_with(
        &mut self,
        now_ns: u64,
        budget_bytes: u64,
        access: Access,
    ) -> Result<TaskStep<T::News>, StoreError> {
        let mut state = self.state.lock();
        let Some(mut run) = state.run.take() else {
            return Ok(TaskStep::Idle);
        };
        let report = run.report(TaskPhase::UnderWay);
        let before = report.totals();
        state.at_work = Some(report);
        drop(state);
        let stepped = run.step_with(now_ns, budget_bytes, access);
        let after = run.report(TaskPhase::UnderWay).totals();
        let is_finished = matches!(stepped, Ok(TaskStep::Finished));
        let written = match &stepped {
            Ok(_) if is_finished || run.wants_record() => run.record(),
            _ => Ok(()),
        };
        let (stepped, unrecorded) = match written {
            Err(e) if !is_finished && run.is_over_after(&e) => (Err(e), None),
            written => (stepped, written.err()),
        };
        let mut state = self.state.lock();
        state.at_work = None;
        state.unrecorded = unrecorded.or(state.unrecorded.take());
        let totals = &mut state.totals;
        totals.bytes = totals.bytes.plus(after.bytes.since(before.bytes));
        totals.damaged += after.damaged.saturating_sub(before.damaged);
        match &stepped {
            Ok(TaskStep::Finished) => {
                let report = run.report(TaskPhase::AtRest);
                self.put(&mut state, report, RunOutcome::Stopped);
            }
            Err(e) if run.is_over_after(e) => {
                // Only the recorded progress can be resumed.
                let recorded = T::stop_recorded(&self.pool, TaskPhase::Paused);
                let last = recorded.ok().flatten();
                let last = last.unwrap_or_else(|| run.report(TaskPhase::Paused));
                self.put(&mut state, last, RunOutcome::Failed(e.to_string()));
            }
            _ => {
                state.run = Some(run);
                self.changed.notify_all();
            }
        }
        stepped
    }
}

#[cfg(test)]
mod tests;
