//! What a maintenance task is to the controller, and no more.
//!
//! Invariant: every step is bounded, and the same for all tasks; a task that is stopped after any step has lost
//! little work and no data. Implemented by scrub, garbage collection, replication and defragmentation.

pub use duet::Access;
use qos::Flow;

/// What a step has done.
#[derive(Debug)]
pub enum TaskStep<N> {
    /// Some work: step again.
    Worked {
        /// Bytes that were read or copied.
        bytes: u64,
    },
    /// What is left is not in memory: it goes on when it is the task's turn at the device.
    NeedsDevice,
    /// Something that the caller wants to hear of; step again.
    News(N),
    /// The rate limit does not allow more before this time.
    Waiting {
        /// Nanoseconds on the caller's clock.
        until_ns: u64,
    },
    /// Nothing is under way: it was not started, or is paused.
    Idle,
    /// It is over.
    Finished,
}

/// A maintenance task.
pub trait MaintenanceTask {
    /// What it has to tell beside its progress: work that failed and was left aside, or a milestone.
    type News;
    /// Why it cannot go on.
    type Error;

    /// Whose turns at the device it uses.
    fn flow(&self) -> Flow;

    /// Does about `budget_bytes` of work. It is `now_ns`, nanoseconds since any moment. With
    /// [`Access::Memory`] it does only what is in memory.
    fn step_with(
        &mut self,
        now_ns: u64,
        budget_bytes: u64,
        access: Access,
    ) -> Result<TaskStep<Self::News>, Self::Error>;

    /// The same, with the device.
    fn step(
        &mut self,
        now_ns: u64,
        budget_bytes: u64,
    ) -> Result<TaskStep<Self::News>, Self::Error> {
        self.step_with(now_ns, budget_bytes, Access::Device)
    }
}

impl<N> TaskStep<N> {
    /// With other news.
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
