//! The thread that steps the fast tier: it reads the directories of blocks at the start, and then
//! writes staged chunks. `serve` starts it.
//!
//! Invariant: no client waits for it. At its end it writes what is staged, so that the next server
//! finds it.

use super::background::Background;
use crate::program::Program;
use media::Clock;
use ssd_tier::Tier;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use terminal::interrupt::Interrupt;

/// Bytes of I/O of one step.
const STEP_BYTES: u64 = 8 << 20;
/// Pause when there is nothing to do.
const PAUSE: Duration = Duration::from_millis(200);

/// Starts the thread.
pub fn start(
    tier: &Arc<Tier>,
    clock: Arc<dyn Clock>,
    program: &Arc<dyn Program>,
) -> io::Result<Background> {
    let interrupt = Interrupt::of_command()?;
    let (tier, program) = (Arc::clone(tier), Arc::clone(program));
    let stop = interrupt.clone();
    let work = move || {
        while !interrupt.requested() {
            let stepped = tier.step(clock.now(), STEP_BYTES);
            if let Some(notice) = stepped.notice {
                program.warn(format_args!("{notice}"));
            }
            if !stepped.has_more && interrupt.wait(PAUSE) {
                break;
            }
        }
        tier.finish(clock.now());
    };
    Background::start("fast-tier", stop, work, || {})
}
