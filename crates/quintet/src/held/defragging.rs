//! The defragmentation of a held pool: a run that a thread works on and commands switch.
//!
//! Invariant: one run at a time; the lock is not held across steps, which wait for the device. A run that is paused, or that the server leaves
//! behind at its end, was written down. Called by the server's thread, `defrag` and `status`.

use super::TaskBytes;
use anyhow::bail;
use format::phase::TaskPhase;
use maintenance::{
    Access, DefragRun, DefragStage, Defragmenter, MaintenanceTask, RecordedDefrag, TaskStep,
};
use qos::Flow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;
use store::StoreError;
use units::UnixNanos;
use volumes::Volumes;

/// What became of a run that is not under way.
#[derive(Clone, Debug, Default)]
pub enum Outcome {
    /// It is over, or stands still: its phase says which.
    #[default]
    Stopped,
    /// It could not go on, and stands still.
    Failed(String),
    /// The server ended; the next one goes on.
    LeftBehind,
}

#[derive(Default)]
struct State {
    /// Under way.
    run: Option<Defragmenter>,
    /// The thread has it, for a step; it was so before.
    at_work: Option<DefragRun>,
    /// Else the last one.
    last: Option<DefragRun>,
    outcome: Outcome,
    /// What this server has copied.
    totals: TaskBytes,
    /// The server ends: nobody works on runs any more.
    is_closed: bool,
}

impl State {
    fn is_running(&self) -> bool {
        self.run.is_some() || self.at_work.is_some()
    }
}

/// See the module's head.
pub struct Defragmenting {
    volumes: Arc<Volumes>,
    state: Mutex<State>,
    changed: Condvar,
}

/// For who asks.
#[derive(Clone, Debug)]
pub struct DefragStatus {
    /// The run that is under way, or else the last one.
    pub run: DefragRun,
    /// What became of it.
    pub outcome: Outcome,
}

impl Defragmenting {
    /// As the last server left it.
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
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// When the thread does not have the run.
    fn between_steps(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        while state.at_work.is_some() {
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(|e| e.into_inner());
        }
        state
    }

    /// Refuses a second run.
    pub fn is_free(&self) -> anyhow::Result<()> {
        refuse_second(&self.state())
    }

    /// Begins a run, or goes on with one; says when it began, by which it is known.
    pub fn begin(&self, mut run: Defragmenter) -> anyhow::Result<UnixNanos> {
        let mut state = self.state();
        if state.is_closed {
            bail!("the server ends");
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

    /// Goes on with the run that is paused, or lets the one that is under way have another limit; false: there is none.
    /// `take_up` makes the run of what was written down.
    pub fn resume(
        &self,
        limit: Option<u64>,
        take_up: impl FnOnce(RecordedDefrag) -> store::Result<Defragmenter>,
    ) -> anyhow::Result<bool> {
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

    /// True when a process that died has left a run under way.
    pub fn is_left_under_way(&self) -> bool {
        let state = self.state();
        let is_under_way = |run: &DefragRun| run.phase == TaskPhase::UnderWay;
        !state.is_running() && state.last.as_ref().is_some_and(is_under_way)
    }

    /// Lets it stand still, or ends it for good; false: there is none.
    pub fn stop(&self, phase: TaskPhase) -> anyhow::Result<bool> {
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

    /// The same for a run that is under way in this server, and for no other.
    pub fn stop_running(&self, phase: TaskPhase) -> anyhow::Result<bool> {
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

    /// It is time to write down how far it is: what was copied counts soon, and is written down then.
    pub fn record(&self) -> store::Result<()> {
        match &mut self.state().run {
            Some(run) => {
                run.settle_soon();
                run.record()
            }
            None => Ok(()),
        }
    }

    /// The server ends: the next one goes on.
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

    /// Waits until something is switched, at most so long; not at all while a run is under way, or when `unless` is so.
    pub fn wait(&self, at_most: Duration, unless: impl FnOnce() -> bool) {
        let state = self.state();
        if state.is_running() || unless() {
            return;
        }
        let _ = self.changed.wait_timeout(state, at_most);
    }

    /// Ends a wait.
    pub fn wake(&self) {
        let _state = self.state();
        self.changed.notify_all();
    }

    /// What this server has copied, by where it was.
    pub fn totals(&self) -> TaskBytes {
        self.state().totals
    }

    /// `None`: there was no run that anybody knows of.
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

/// One step of the run that is under way. When it is over, it is written down.
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
                // What was written down of it.
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

fn refuse_second(state: &State) -> anyhow::Result<()> {
    match state.is_running() {
        false => Ok(()),
        true => bail!("the server is defragmenting already (see quintet defrag status)"),
    }
}
