//! The thread that defragments while a server holds the pool, when somebody wants it.
//!
//! Invariant: it has the device when nobody else asks for anything, and its floor beside (`qos`), in steps of 256 KiB; it takes no
//! turn to write. A run that a server or a process left under way goes on by itself. Called by `serve`.

use super::background::Background;
use crate::calendar;
use crate::error::with_causes;
use crate::held::{Held, TaskHost};
use crate::interrupt::Interrupt;
use crate::program::Program;
use jiff::tz::TimeZone;
use maintenance::{Advance, Defragmenter, RecordedDefrag, StepSizes, TaskStep, advance};
use media::Asker;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::StoreError;
use units::Origin;

/// It is never alone.
const SIZES: StepSizes = StepSizes::new(1 << 20);
/// Waits while there is nothing to do; a start ends them.
const AT_REST: Duration = Duration::from_secs(60);
/// Time between two records of how far it is, where less was done than asks for one.
const RECORD_EVERY: Duration = Duration::from_secs(60);

/// Starts the thread; a run that was under way goes on as `take_up` makes it of what was written down, and is left to the next server when this one ends.
pub fn start(
    held: &Arc<Held>,
    program: &Arc<dyn Program>,
    zone: &TimeZone,
    take_up: impl FnOnce(RecordedDefrag) -> store::Result<Defragmenter>,
) -> io::Result<Background> {
    let interrupt = Interrupt::of_command()?;
    let work = Work {
        held: Arc::clone(held),
        program: Arc::clone(program),
        interrupt: interrupt.clone(),
        recorded: Instant::now(),
    };
    if held.defrag.is_left_under_way() {
        work.take_up(zone, take_up);
    }
    let held = Arc::clone(held);
    let wake = move || held.defrag.wake();
    Background::start("defrag", interrupt, move || work.run(), wake)
}

struct Work {
    held: Arc<Held>,
    program: Arc<dyn Program>,
    interrupt: Interrupt,
    recorded: Instant,
}

impl Work {
    /// Goes on with what was left.
    fn take_up(
        &self,
        zone: &TimeZone,
        take_up: impl FnOnce(RecordedDefrag) -> store::Result<Defragmenter>,
    ) {
        let mut began = None;
        let gone_on = self.held.defrag.resume(None, |recorded| {
            began = Some(recorded.run().began);
            take_up(recorded)
        });
        match (gone_on, began) {
            (Ok(_), Some(began)) => {
                let began = calendar::local(began, zone);
                self.program
                    .note(format_args!("defrag: goes on with the run of {began}"));
            }
            (Ok(_), None) => {}
            (Err(e), _) => self.program.warn(format_args!(
                "defrag: the run that was left does not go on: {}",
                with_causes(&e)
            )),
        }
    }

    fn run(mut self) {
        let _asking = Asker::of(Origin::Defragment).begin();
        let (held, interrupt) = (Arc::clone(&self.held), self.interrupt.clone());
        let host = TaskHost::new(Some(&held), &interrupt);
        while !self.interrupt.requested() {
            if held.defrag.is_free().is_ok() {
                held.defrag.wait(AT_REST, || self.interrupt.requested());
                continue;
            }
            match advance(&mut &held.defrag, &host, SIZES) {
                Ok(Advance::Stopped) => break,
                Ok(Advance::Step(step)) => self.judge(step, &host),
                Err(e) => self.program.warn(format_args!(
                    "defrag: {e}; it is paused (go on: quintet defrag resume)"
                )),
            }
            if self.recorded.elapsed() >= RECORD_EVERY {
                self.recorded = Instant::now();
                self.say(held.defrag.record());
            }
        }
        self.say(held.defrag.leave());
    }

    /// What to do after a while of work.
    fn judge(&self, step: TaskStep<StoreError>, host: &TaskHost<'_>) {
        match step {
            TaskStep::News(error) => self
                .program
                .warn(format_args!("defrag: left where it is: {error}")),
            TaskStep::Waiting { until_ns } => host.wait_until(until_ns),
            TaskStep::Finished => self.program.note(format_args!("defrag: done")),
            TaskStep::Worked { .. } | TaskStep::NeedsDevice | TaskStep::Idle => {}
        }
    }

    fn say(&self, written: store::Result<()>) {
        if let Err(e) = written {
            self.program.warn(format_args!(
                "defrag: how far it is could not be written down: {e}"
            ));
        }
    }
}
