//! A garbage collection run as a task for the controller. The program calls this.
//!
//! Invariant: the steps are those of the run; this adapter keeps no state of its own.

use super::Collector;
use crate::task::{Access, MaintenanceTask, TaskStep};
use qos::Flow;
use std::convert::Infallible;
use store::{CachedChunks, GcStep, NothingCached, Pool, StoreError};
use volumes::Volumes;

/// See the module's head.
pub struct Collecting<'a> {
    /// The run.
    pub collector: &'a mut Collector,
    /// The pool to collect.
    pub pool: &'a Pool,
    /// The pool's volumes, if it has any.
    pub volumes: Option<&'a Volumes>,
}

impl MaintenanceTask for Collecting<'_> {
    type News = Infallible;
    /// After an error the run is over.
    type Error = StoreError;

    fn flow(&self) -> Flow {
        Flow::Collect
    }

    /// Copying takes what is in memory without the device. Everything else needs it: marking looks
    /// up the index and reads recipes.
    fn step_with(
        &mut self,
        _: u64,
        budget_bytes: u64,
        access: Access,
    ) -> Result<TaskStep<Infallible>, StoreError> {
        let cached: &dyn CachedChunks = match self.volumes {
            Some(volumes) => volumes,
            None => &NothingCached,
        };
        let before = self.collector.counts().copied_bytes;
        let step = match access {
            Access::Device => self
                .collector
                .step(self.pool, self.volumes, cached, budget_bytes)?,
            Access::Memory => {
                let worked = self
                    .collector
                    .step_in_memory(self.pool, cached, budget_bytes)?;
                if !worked {
                    return Ok(TaskStep::NeedsDevice);
                }
                GcStep::Working
            }
        };
        let copied = self.collector.counts().copied_bytes;
        Ok(match step {
            GcStep::Working => TaskStep::Worked {
                bytes: copied.saturating_sub(before),
            },
            GcStep::Done => TaskStep::Finished,
        })
    }
}
