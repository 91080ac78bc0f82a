//! A maintenance task, as the controller sees it. Scrub, garbage collection, replication and
//! defragmentation implement it.
//!
//! Invariant: every step is bounded, and the interface is the same for all tasks. A task that is
//! stopped after any step loses little work and no data.

pub use duet::Access;
use qos::Flow;

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
