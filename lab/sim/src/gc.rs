//! Garbage collection in histories of pools and volumes, by the controller that runs it in the
//! product. The histories' processes and their examinations call this.
//!
//! Invariant: no clock and no threads: the same history makes the same operations.

use maintenance::{Alone, Collecting, Collector, RunEnd, StepSizes, run_task};
use std::ops::ControlFlow;
use store::{Pool, StoreError};
use volumes::Volumes;

/// Does this many steps of so many bytes. Returns true if the run has ended.
pub(crate) fn steps(
    collector: &mut Collector,
    pool: &Pool,
    volumes: Option<&Volumes>,
    (count, bytes): (usize, u64),
) -> Result<bool, StoreError> {
    let mut task = Collecting {
        collector,
        pool,
        volumes,
    };
    let mut left = count;
    let ended = run_task(&mut task, &Alone, StepSizes::new(bytes), |_, _| {
        left = left.saturating_sub(1);
        Ok::<_, StoreError>(match left {
            0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
    })?;
    Ok(ended == RunEnd::Finished)
}
