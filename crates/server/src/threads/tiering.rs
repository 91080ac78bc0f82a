//! The thread that steps the fast tier: it reads the directories of blocks at the start, then
//! writes staged chunks, and copies the fingerprint index to the fast device. `serve` starts it.
//!
//! Invariant: no client waits for it. At its end it writes what is staged, and stamps the copy, so
//! that the next server finds both.

use super::background::Background;
use crate::program::Program;
use crate::state::ServerState;
use media::Clock;
use ssd_tier::Tier;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use terminal::interrupt::Interrupt;

/// Bytes of I/O of one step.
const STEP_BYTES: u64 = 8 << 20;
/// Bytes of the first step of a tier that is only read: hundredths of a second on flash.
const FIRST_STEP_BYTES: u64 = 1 << 20;
/// Bytes of the index that are copied at once: commits wait for it.
const COPY_BYTES: u64 = 1 << 20;
/// Pause after that, so that clients keep most of the pool's device.
const COPY_PAUSE: Duration = Duration::from_millis(50);
/// Pause when there is nothing to do.
const PAUSE: Duration = Duration::from_millis(200);

/// Starts a thread that learns what a tier has that another process writes. It ends when it knows.
/// A tier that cannot be read is one line, and a slower command.
pub fn start_reading(
    tier: Arc<Tier>,
    clock: Arc<dyn Clock>,
    program: &Arc<dyn Program>,
) -> io::Result<Background> {
    let interrupt = Interrupt::of_command()?;
    let (stop, program) = (interrupt.clone(), Arc::clone(program));
    let step = move |bytes| {
        let stepped = tier.step(clock.now(), bytes);
        if let Some(notice) = stepped.notice {
            program.warn(format_args!("{notice}"));
        }
        stepped.has_more
    };
    // A small tier is known before the first read.
    let mut has_more = step(FIRST_STEP_BYTES);
    let work = move || {
        while has_more && !interrupt.requested() {
            has_more = step(STEP_BYTES);
        }
    };
    Background::start("fast-tier", stop, work, || {})
}

/// Starts the thread, if the pool has a fast tier.
pub fn start(
    server: &Arc<ServerState>,
    clock: Arc<dyn Clock>,
    program: &Arc<dyn Program>,
) -> io::Result<Option<Background>> {
    let Some(tier) = server.pool.fast_tier().map(Arc::clone) else {
        return Ok(None);
    };
    let interrupt = Interrupt::of_command()?;
    let (server, program) = (Arc::clone(server), Arc::clone(program));
    let stop = interrupt.clone();
    let work = move || {
        while !interrupt.requested() {
            let stepped = tier.step(clock.now(), STEP_BYTES);
            let pause = match server.pool.step_fast_index(clock.now(), COPY_BYTES) {
                true => COPY_PAUSE,
                false => PAUSE,
            };
            if let Some(notice) = stepped.notice {
                program.warn(format_args!("{notice}"));
            }
            if let Some(change) = server.classes.tune(clock.now()) {
                program.note(format_args!("{change}"));
            }
            if !stepped.has_more && interrupt.wait(pause) {
                break;
            }
        }
        tier.finish(clock.now());
        server.pool.finish_fast_index(clock.now());
    };
    Background::start("fast-tier", stop, work, || {}).map(Some)
}
