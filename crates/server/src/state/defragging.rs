//! State of defragmentation in a server: a run that a thread works on and that commands control.
//! The defragmentation thread, `defrag` and `status` call this.
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

use super::{TaskBytes, TaskError};
use format::phase::TaskPhase;
use maintenance::{
    Access, DefragRun, DefragStage, Defragmenter, MaintenanceTask, RecordedDefrag, TaskStep,
};
use parking_lot::{Condvar, Mutex, MutexGuard};
use qos::Flow;
use std::sync::Arc;
use std::time::Duration;
use store::StoreError;
use units::UnixNanos;
use volumes::Volumes;

/// Outcome of a run that is not in progress.
#[derive(Clone, Debug, Default)]
pub enum Outcome {
    /// The run has finished, was cancelled or is paused: its phase says which.
    #[default]
    Stopped,
    /// The run failed with this error and is paused.
    Failed(String),
    /// The server ended. The next server resumes the run.
    LeftBehind,
}

#[derive(Default)]
struct State {
    /// The run in progress, between two steps.
    run: Option<Defragmenter>,
    /// Set while the thread works on a step: the run as it was before the step.
    at_work: Option<DefragRun>,
    /// The last run, if none is in progress.
    last: Option<DefragRun>,
    outcome: Outcome,
    /// Bytes that this server has copied.
    totals: TaskBytes,
    /// The server is ending and begins no run.
    is_closed: bool,
}

impl State {
    fn is_running(&self) -> bool {
        self.run.is_some() || self.at_work.is_some()
    }
}

/// State of defragmentation. See the module's head.
pub struct Defragmenting {
    volumes: Arc<Volumes>,
    state: Mutex<State>,
    changed: Condvar,
}

/// Snapshot of the state for `status`, `top` and the metrics.
#[derive(Clone, Debug)]
pub struct DefragStatus {
    /// The run in progress, or else the last run.
    pub run: DefragRun,
    /// Outcome of the last run.
    pub outcome: Outcome,
}

impl Defragmenting {
    /// Reads the state that the last server recorded.
    pub fn of(volumes: &Arc<Volumes>) -> Self {
        let last = RecordedDefrag::read(volumes.pool()).map(|recorded| recorded.run());
        Self {
            volumes: Arc::clone(volumes),
            state: Mutex::new(State {
                last,
                ..State::default()
            }),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Locks the state between two steps of the thread.
    fn between_steps(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        while state.at_work.is_some() {
            self.changed.wait(&mut state);
        }
        state
    }

    /// Returns an error if a run is in progress.
    pub fn is_free(&self) -> Result<(), TaskError> {
        refuse_second(&self.state())
    }

    /// Begins or resumes a run. Returns its begin time, which identifies it.
    pub fn begin(&self, mut run: Defragmenter) -> Result<UnixNanos, TaskError> {
        let mut state = self.state();
        if state.is_closed {
            return Err(TaskError::Ending);
        }
        refuse_second(&state)?;
        run.record()?;
        let began = run.run(TaskPhase::UnderWay).began;
        state.run = Some(run);
        state.outcome = Outcome::Stopped;
        drop(state);
        self.changed.notify_all();
        Ok(began)
    }

    /// Resumes the paused run, or changes the rate limit of the run in progress. Returns false if
    /// there is no run. `take_up` restores the run from its record.
    pub fn resume(
        &self,
        limit: Option<u64>,
        take_up: impl FnOnce(RecordedDefrag) -> store::Result<Defragmenter>,
    ) -> Result<bool, TaskError> {
        let mut state = self.between_steps();
        if let Some(run) = &mut state.run {
            if limit.is_some() {
                run.limit(limit);
            }
            return Ok(true);
        }
        drop(state);
        let recorded = RecordedDefrag::read(self.volumes.pool());
        let Some(recorded) = recorded.filter(|r| r.run().phase != TaskPhase::AtRest) else {
            return Ok(false);
        };
        let mut run = take_up(recorded)?;
        if limit.is_some() {
            run.limit(limit);
        }
        self.begin(run)?;
        Ok(true)
    }

    /// Returns true if a process died during a run.
    pub fn is_left_under_way(&self) -> bool {
        let state = self.state();
        let is_under_way = |run: &DefragRun| run.phase == TaskPhase::UnderWay;
        !state.is_running() && state.last.as_ref().is_some_and(is_under_way)
    }

    /// Pauses or cancels the run, as `phase` says. Returns false if there is none.
    pub fn stop(&self, phase: TaskPhase) -> Result<bool, TaskError> {
        if self.stop_running(phase)? {
            return Ok(true);
        }
        let mut state = self.state();
        let recorded = RecordedDefrag::read(self.volumes.pool());
        let Some(mut recorded) = recorded.filter(|r| r.run().phase != TaskPhase::AtRest) else {
            return Ok(false);
        };
        recorded.stop(self.volumes.pool(), phase)?;
        self.put(&mut state, recorded.run(), Outcome::Stopped);
        Ok(true)
    }

    /// The same for a run in progress in this server only.
    pub fn stop_running(&self, phase: TaskPhase) -> Result<bool, TaskError> {
        let mut state = self.between_steps();
        let Some(mut run) = state.run.take() else {
            return Ok(false);
        };
        let stopped = match phase {
            TaskPhase::AtRest => run.cancel(),
            _ => run.pause(),
        };
        self.put(&mut state, run.run(phase), Outcome::Stopped);
        stopped?;
        Ok(true)
    }

    fn put(&self, state: &mut State, run: DefragRun, outcome: Outcome) {
        state.last = Some(run);
        state.outcome = outcome;
        self.changed.notify_all();
    }

    /// Records the progress. Copied chunks count only after a commit, so a commit is requested
    /// first.
    pub fn record(&self) -> store::Result<()> {
        match &mut self.state().run {
            Some(run) => {
                run.settle_soon();
                run.record()
            }
            None => Ok(()),
        }
    }

    /// Ends the work for this server. The next server resumes the run.
    pub fn leave(&self) -> store::Result<()> {
        let mut state = self.state();
        state.is_closed = true;
        let Some(mut run) = state.run.take() else {
            return Ok(());
        };
        let left = run.settle().and_then(|()| run.record());
        self.put(
            &mut state,
            run.run(TaskPhase::UnderWay),
            Outcome::LeftBehind,
        );
        left
    }

    /// Waits for a change, at most `at_most`. Returns at once if a run is in progress or `unless()`
    /// is true.
    pub fn wait(&self, at_most: Duration, unless: impl FnOnce() -> bool) {
        let mut state = self.state();
        if state.is_running() || unless() {
            return;
        }
        self.changed.wait_for(&mut state, at_most);
    }

    /// Ends a wait.
    pub fn wake(&self) {
        let _state = self.state();
        self.changed.notify_all();
    }

    /// Returns the bytes that this server has copied.
    pub fn totals(&self) -> TaskBytes {
        self.state().totals
    }

    /// Returns the state. `None` if no run is known.
    pub fn status(&self) -> Option<DefragStatus> {
        let state = self.state();
        let run = match &state.run {
            Some(run) => Some(run.run(TaskPhase::UnderWay)),
            None => state.at_work.or(state.last),
        };
        run.map(|run| DefragStatus {
            run,
            outcome: state.outcome.clone(),
        })
    }
}

/// Works one step on the run in progress. Records a finished run.
impl MaintenanceTask for &Defragmenting {
    type News = StoreError;
    type Error = StoreError;

    fn flow(&self) -> Flow {
        Flow::Defragment
    }

    fn step_with(
        &mut self,
        now_ns: u64,
        budget_bytes: u64,
        access: Access,
    ) -> store::Result<TaskStep<StoreError>> {
        let mut state = self.state();
        let Some(mut run) = state.run.take() else {
            return Ok(TaskStep::Idle);
        };
        state.at_work = Some(run.run(TaskPhase::UnderWay));
        drop(state);
        let before = copied(&run);
        let stepped = run.step_with(now_ns, budget_bytes, access);
        let came = copied(&run).since(before);
        let is_done = run.report().stage == DefragStage::Done;
        let written = match &stepped {
            Ok(_) if run.wants_record() || is_done => run.record(),
            _ => Ok(()),
        };
        let stepped = stepped.and_then(|step| written.map(|()| step));
        let mut state = self.state();
        state.at_work = None;
        state.totals = state.totals.plus(came);
        match &stepped {
            Ok(TaskStep::Finished) => {
                self.put(&mut state, run.run(TaskPhase::AtRest), Outcome::Stopped);
            }
            Ok(_) => {
                state.run = Some(run);
                self.changed.notify_all();
            }
            Err(e) => {
                let mut last = run.run(TaskPhase::Paused);
                // Only the recorded progress can be resumed.
                if let Some(mut recorded) = RecordedDefrag::read(self.volumes.pool()) {
                    let _ = recorded.stop(self.volumes.pool(), TaskPhase::Paused);
                    last = recorded.run();
                }
                self.put(&mut state, last, Outcome::Failed(e.to_string()));
            }
        }
        stepped
    }
}

fn copied(run: &Defragmenter) -> TaskBytes {
    let moved = run.report().moved;
    TaskBytes::of(moved.bytes, moved.cached_bytes)
}

fn refuse_second(state: &State) -> Result<(), TaskError> {
    match state.is_running() {
        false => Ok(()),
        true => Err(TaskError::Defragmenting),
    }
}
