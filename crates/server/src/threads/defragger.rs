//! The thread that defragments while a server holds the pool, when a user has asked for it. `serve`
//! starts it.
//!
//! Invariant: it uses the device when it is idle, and otherwise the I/O floor of defragmentation
//! (`qos`). It does not take the writer lock. A run that was in progress when a server or process
//! ended is resumed.

use super::background::Background;
use crate::calendar;
use crate::error::with_causes;
use crate::interrupt::Interrupt;
use crate::program::Program;
use crate::state::{ServerState, TaskHost};
use jiff::tz::TimeZone;
use maintenance::{Advance, Defragmenter, RecordedDefrag, StepSizes, TaskStep, advance};
use media::IoOrigin;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::StoreError;
use units::Origin;

/// Step sizes. The thread always shares the device with clients.
const SIZES: StepSizes = StepSizes::new(1 << 20);
/// Maximum wait while there is nothing to do. A start ends it.
const AT_REST: Duration = Duration::from_secs(60);
/// Time between two records of the progress, if the work itself asks for none.
const RECORD_EVERY: Duration = Duration::from_secs(60);

/// Starts the thread. A recorded run that was in progress is resumed: `take_up` restores it. When
/// the server ends, the run is left to the next one.
pub fn start(
    server: &Arc<ServerState>,
    program: &Arc<dyn Program>,
    zone: &TimeZone,
    take_up: impl FnOnce(RecordedDefrag) -> store::Result<Defragmenter>,
) -> io::Result<Background> {
    let interrupt = Interrupt::of_command()?;
    let work = Work {
        server: Arc::clone(server),
        program: Arc::clone(program),
        interrupt: interrupt.clone(),
        recorded: Instant::now(),
    };
    if server.defrag.is_left_under_way() {
        work.take_up(zone, take_up);
    }
    let server = Arc::clone(server);
    let wake = move || server.defrag.wake();
    Background::start("defrag", interrupt, move || work.run(), wake)
}

struct Work {
    server: Arc<ServerState>,
    program: Arc<dyn Program>,
    interrupt: Interrupt,
    recorded: Instant,
}

impl Work {
    /// Resumes the run that was left.
    fn take_up(
        &self,
        zone: &TimeZone,
        take_up: impl FnOnce(RecordedDefrag) -> store::Result<Defragmenter>,
    ) {
        let mut began = None;
        let gone_on = self.server.defrag.resume(None, |recorded| {
            began = Some(recorded.run().began);
            take_up(recorded)
        });
        match (gone_on, began) {
            (Ok(_), Some(began)) => {
                let began = calendar::local(began, zone);
                self.program
                    .note(format_args!("defrag: resumes the run of {began}"));
            }
            (Ok(_), None) => {}
            (Err(e), _) => self.program.warn(format_args!(
                "defrag: cannot resume the unfinished run: {}",
                with_causes(&e)
            )),
        }
    }

    fn run(mut self) {
        let _io_origin = IoOrigin::of(Origin::Defragment).begin();
        let (server, interrupt) = (Arc::clone(&self.server), self.interrupt.clone());
        let host = TaskHost::new(Some(&server), &interrupt);
        while !self.interrupt.requested() {
            if server.defrag.is_free().is_ok() {
                server.defrag.wait(AT_REST, || self.interrupt.requested());
                continue;
            }
            match advance(&mut &server.defrag, &host, SIZES) {
                Ok(Advance::Stopped) => break,
                Ok(Advance::Step(step)) => self.judge(step, &host),
                Err(e) => self.program.warn(format_args!(
                    "defrag: paused: {e} (continue with quintet defrag resume)"
                )),
            }
            if self.recorded.elapsed() >= RECORD_EVERY {
                self.recorded = Instant::now();
                self.say(server.defrag.record());
            }
        }
        self.say(server.defrag.leave());
    }

    /// Acts on the result of a step.
    fn judge(&self, step: TaskStep<StoreError>, host: &TaskHost<'_>) {
        match step {
            TaskStep::News(error) => self
                .program
                .warn(format_args!("defrag: a range was not moved: {error}")),
            TaskStep::Waiting { until_ns } => host.wait_until(until_ns),
            TaskStep::Finished => self.program.note(format_args!("defrag: done")),
            TaskStep::Worked { .. } | TaskStep::NeedsDevice | TaskStep::Idle => {}
        }
    }

    fn say(&self, written: store::Result<()>) {
        if let Err(e) = written {
            self.program
                .warn(format_args!("defrag: cannot record the progress: {e}"));
        }
    }
}
