//! The thread that defragments while a server holds the pool, when a user has asked for it. It
//! copies hot chunks into small regions by itself. `serve` starts it.
//!
//! Invariant: it uses the device when it is idle, and otherwise the I/O floor of defragmentation
//! (`qos`). It does not take the writer lock. A run that was in progress when a server or process
//! ended is resumed.

mod hot_chunks;

use super::background::Background;
use super::task::{self, Duties, ThreadOptions};
use crate::program::Program;
use crate::state::{TaskSlot, Tasks};
use format::phase::TaskPhase;
use hot_chunks::HotChunksThread;
use jiff::tz::TimeZone;
use maintenance::{Defragmenter, StepSizes};
use std::io;
use std::sync::Arc;
use store::{LaneOptions, StoreError};
use terminal::calendar;
use terminal::error::with_causes;
use terminal::interrupt::Interrupt;
use units::Origin;

const OPTIONS: ThreadOptions = ThreadOptions {
    name: "defrag",
    origin: Origin::Defragment,
    sizes: StepSizes::new(1 << 20),
};

/// Starts the thread. A recorded run that was in progress is resumed: `take_up` restores it. When
/// the server ends, the run is left to the next one. `lane` packs hot chunks.
pub fn start(
    tasks: &Arc<Tasks>,
    program: &Arc<dyn Program>,
    zone: &TimeZone,
    lane: LaneOptions,
    take_up: impl FnOnce() -> store::Result<Option<Defragmenter>>,
) -> io::Result<Background> {
    let interrupt = Interrupt::of_command()?;
    let slot = &tasks.defrag;
    let mut hot_chunks = HotChunksThread::new(tasks, program, lane);
    if slot.is_left_under_way() {
        let own = tasks.own_defrag();
        if own.is_some() && tasks.shares().schedule.hot_chunks_percent == 0 {
            // The server before this one began it by itself; this one must not.
            if let Err(e) = slot.stop(TaskPhase::AtRest) {
                program.warn(format_args!("defrag: {e}"));
            }
        } else {
            resume(slot, &**program, zone, take_up);
            if let Some(own) = own {
                hot_chunks.begun(own.counts.small.bytes);
            }
        }
    }
    let duties = Defragging {
        slot: Arc::clone(slot),
        program: Arc::clone(program),
        interrupt: interrupt.clone(),
        hot_chunks,
    };
    task::start(OPTIONS, tasks, slot, interrupt, duties)
}

/// Resumes the run that was left.
fn resume(
    slot: &TaskSlot<Defragmenter>,
    program: &dyn Program,
    zone: &TimeZone,
    take_up: impl FnOnce() -> store::Result<Option<Defragmenter>>,
) {
    match slot.resume(None, take_up) {
        Ok(true) => {
            let began = slot.status().map(|status| status.run.report.began);
            let began = calendar::local(began.unwrap_or_default(), zone);
            program.note(format_args!("defrag: resumes the run of {began}"));
        }
        Ok(false) => {}
        Err(e) => program.warn(format_args!(
            "defrag: cannot resume the unfinished run: {}",
            with_causes(&e)
        )),
    }
}

struct Defragging {
    slot: Arc<TaskSlot<Defragmenter>>,
    program: Arc<dyn Program>,
    interrupt: Interrupt,
    hot_chunks: HotChunksThread,
}

impl Duties for Defragging {
    type Task = Defragmenter;

    fn rest(&mut self) {
        let at_most = self.hot_chunks.rest();
        self.slot.wait(at_most, || self.interrupt.requested());
    }

    fn worked(&mut self) {
        self.hot_chunks.worked();
    }

    fn news(&mut self, error: StoreError) {
        self.program
            .warn(format_args!("defrag: a range was not moved: {error}"));
    }

    fn finished(&mut self) {
        if !self.hot_chunks.ended(None) {
            self.program.note(format_args!("defrag: done"));
        }
    }

    fn failed(&mut self, error: &StoreError) {
        if self.hot_chunks.ended(Some(error)) {
            return;
        }
        self.program.warn(format_args!(
            "defrag: paused: {error} (continue with quintet defrag resume)"
        ));
    }

    fn unrecorded(&mut self, error: &StoreError) {
        self.program
            .warn(format_args!("defrag: cannot record the progress: {error}"));
    }
}
