//! The thread that reads file systems inside served volumes, so that their blocks have classes.
//! `serve` starts it.
//!
//! Invariant: no client waits for it. Without a policy it does nothing.

use super::background::Background;
use classifier::Classifiers;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use terminal::interrupt::Interrupt;

/// Reads of a volume in one step. Blocks of the volume are unknown meanwhile.
const READS: u64 = 8;
/// Pause when everything was read.
const PAUSE: Duration = Duration::from_millis(200);

/// Starts the thread.
pub fn start(classifiers: &Arc<Classifiers>) -> io::Result<Background> {
    let interrupt = Interrupt::of_command()?;
    let (classifiers, stop) = (Arc::clone(classifiers), interrupt.clone());
    let work = move || {
        while !interrupt.requested() {
            if !classifiers.step(READS) && interrupt.wait(PAUSE) {
                break;
            }
        }
    };
    Background::start("classes", stop, work, || {})
}
