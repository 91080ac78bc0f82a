//! The loop of a thread that works on a maintenance task of a server. The scrub thread and the
//! defragmentation thread are this loop with their [`Duties`].
//!
//! Invariant: a request to end the thread waits for one step at most. Progress is recorded at
//! intervals, and when the server ends: the next server resumes the run.
//!
//! ```text
//! no run: rest (begin what is due, or wait) <--+
//! run: steps of the controller --> worked, news |--> finished, failed
//! ```

use super::background::Background;
use crate::state::{TaskHost, TaskSlot, Tasks};
use maintenance::{ControlledTask, MaintenanceTask, RunEnd, StepSizes, run_task};
use media::IoOrigin;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::StoreError;
use terminal::interrupt::Interrupt;
use units::Origin;

/// Time between two records of the progress, if the work itself asks for none.
const RECORD_EVERY: Duration = Duration::from_secs(60);

/// Name and limits of a thread.
#[derive(Clone, Copy)]
pub struct ThreadOptions {
    /// Name of the thread.
    pub name: &'static str,
    /// I/O origin of its reads and writes.
    pub origin: Origin,
    /// Step sizes. The thread always shares the device with clients.
    pub sizes: StepSizes,
}

/// Duties of a task's thread besides the steps.
pub trait Duties: Send + 'static {
    /// The task.
    type Task: ControlledTask + 'static;

    /// No run is in progress: begins one that is due, or waits.
    fn rest(&mut self);

    /// The run has worked for a while.
    fn worked(&mut self) {}

    /// The run has news.
    fn news(&mut self, news: <Self::Task as MaintenanceTask>::News);

    /// The run is complete.
    fn finished(&mut self);

    /// A step failed.
    fn failed(&mut self, error: &StoreError);

    /// The progress could not be recorded.
    fn unrecorded(&mut self, error: &StoreError);

    /// The thread ends.
    fn end(&mut self) {}
}

/// Starts the thread of a task. `interrupt` ends it.
pub fn start<D: Duties>(
    options: ThreadOptions,
    tasks: &Arc<Tasks>,
    slot: &Arc<TaskSlot<D::Task>>,
    interrupt: Interrupt,
    mut duties: D,
) -> io::Result<Background> {
    let (tasks, slot) = (Arc::clone(tasks), Arc::clone(slot));
    let (awaited, stop) = (Arc::clone(&slot), interrupt.clone());
    let work = move || run(options, &tasks, &slot, &stop, &mut duties);
    Background::start(options.name, interrupt, work, move || awaited.wake())
}

fn run<D: Duties>(
    options: ThreadOptions,
    tasks: &Tasks,
    slot: &TaskSlot<D::Task>,
    interrupt: &Interrupt,
    duties: &mut D,
) {
    let _io_origin = IoOrigin::of(options.origin).begin();
    let host = TaskHost::new(Some(tasks), interrupt);
    let mut recorded = Instant::now();
    while !interrupt.requested() {
        if slot.is_free().is_ok() {
            duties.rest();
            continue;
        }
        let ended = run_task(&mut &*slot, &host, options.sizes, |slot, news| {
            if let Some(news) = news {
                duties.news(news);
            }
            duties.worked();
            let mut unrecorded = slot.take_unrecorded();
            if recorded.elapsed() >= RECORD_EVERY {
                recorded = Instant::now();
                unrecorded = unrecorded.or(slot.record().err());
            }
            if let Some(e) = unrecorded {
                duties.unrecorded(&e);
            }
            Ok::<_, StoreError>(ControlFlow::Continue(()))
        });
        match ended {
            Ok(RunEnd::Finished) => duties.finished(),
            Ok(RunEnd::Idle | RunEnd::Stopped) => {}
            Err(e) => duties.failed(&e),
        }
    }
    let left = slot.leave();
    duties.end();
    if let Err(e) = left {
        duties.unrecorded(&e);
    }
}
