//! A maintenance task, as the controller sees it. Scrub, garbage collection, replication and
//! defragmentation implement it.
//!
//! Invariant: every step is bounded, and the interface is the same for all tasks. A task that is
//! stopped after any step loses little work and no data.

use crate::report::TaskReport;
pub use duet::Access;
use format::phase::TaskPhase;
use qos::Flow;
use store::{Pool, StoreError};

/// Result of a step.
#[derive(Debug)]
pub enum TaskStep<N> {
    /// It worked: step again.
    Worked {
        /// Bytes read or copied.
        bytes: u64,
    },
    /// Nothing that is left is in memory: the next step needs an I/O grant.
    NeedsDevice,
    /// News for the caller; step again.
    News(N),
    /// The rate limit allows no more bytes before this time.
    Waiting {
        /// Nanoseconds on the caller's clock.
        until_ns: u64,
    },
    /// Nothing is in progress: the task was not started, or is paused.
    Idle,
    /// The task is complete.
    Finished,
}

/// A maintenance task.
pub trait MaintenanceTask {
    /// News besides progress: failed work that is skipped, or a milestone.
    type News;
    /// An error that ends the task.
    type Error;

    /// The flow whose I/O grants the task uses.
    fn flow(&self) -> Flow;

    /// Does about `budget_bytes` of work. `now_ns`: nanoseconds since any fixed moment. With
    /// [`Access::Memory`] it uses only data in memory.
    fn step_with(
        &mut self,
        now_ns: u64,
        budget_bytes: u64,
        access: Access,
    ) -> Result<TaskStep<Self::News>, Self::Error>;

    /// The same with the device.
    fn step(
        &mut self,
        now_ns: u64,
        budget_bytes: u64,
    ) -> Result<TaskStep<Self::News>, Self::Error> {
        self.step_with(now_ns, budget_bytes, Access::Device)
    }
}

/// A task that is paused, resumed and cancelled, and whose progress outlives its process. A value
/// is one run.
pub trait ControlledTask: MaintenanceTask<Error = StoreError> + Send {
    /// State that is shown.
    type Report: TaskReport;

    /// Returns the state of the run in this phase.
    fn report(&self, phase: TaskPhase) -> Self::Report;

    /// Changes the rate limit.
    fn limit(&mut self, bytes_per_s: Option<u64>);

    /// Returns true if enough was done since the last record.
    fn wants_record(&self) -> bool;

    /// A record is due by time: soon reaches a state that a record can describe.
    fn settle_soon(&mut self) {}

    /// Records the progress, or that the run is complete.
    fn record(&mut self) -> Result<(), StoreError>;

    /// Records that this process ends its work on the run: it is paused, cancelled (`AtRest`), or
    /// left to the next process (`UnderWay`).
    fn stop(&mut self, phase: TaskPhase) -> Result<(), StoreError>;

    /// Returns true if the run is over after this error. False: the step may be tried again.
    fn is_over_after(&self, _error: &StoreError) -> bool {
        true
    }

    /// Returns the last recorded run. `None` if there was none.
    fn last_recorded(pool: &Pool) -> Option<Self::Report>;

    /// Records that a run that no process works on is paused or cancelled. `None` if there is none
    /// that has not ended.
    fn stop_recorded(pool: &Pool, phase: TaskPhase) -> Result<Option<Self::Report>, StoreError>;
}

impl<N> TaskStep<N> {
    /// Converts the news.
    pub fn map<M>(self, news: impl FnOnce(N) -> M) -> TaskStep<M> {
        match self {
            Self::Worked { bytes } => TaskStep::Worked { bytes },
            Self::NeedsDevice => TaskStep::NeedsDevice,
            Self::News(n) => TaskStep::News(news(n)),
            Self::Waiting { until_ns } => TaskStep::Waiting { until_ns },
            Self::Idle => TaskStep::Idle,
            Self::Finished => TaskStep::Finished,
        }
    }
}
