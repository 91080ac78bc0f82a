//! The [`Host`] of a scrub, which has no server beside it. The controller of `maintenance` calls
//! this.
//!
//! Invariant: no step needs an I/O grant: `--background` waits for an idle disk within a step.

use maintenance::{Host, IoGrant};
use qos::Flow;
use std::time::{Duration, Instant};
use terminal::interrupt::Interrupt;

/// Maximum length of one wait.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// See the module's head.
pub(super) struct Alone<'a> {
    interrupt: &'a Interrupt,
    started: Instant,
}

impl<'a> Alone<'a> {
    pub fn new(interrupt: &'a Interrupt) -> Self {
        Self {
            interrupt,
            started: Instant::now(),
        }
    }
}

impl Host for Alone<'_> {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn is_to_stop(&self) -> bool {
        self.interrupt.requested()
    }

    fn ask(&self, _: Flow, _: u64) -> Option<Box<dyn IoGrant + '_>> {
        None
    }

    /// Waits at most `WAIT_MAX`.
    fn wait_until(&self, until_ns: u64) {
        let wait = Duration::from_nanos(until_ns.saturating_sub(self.now_ns()));
        self.interrupt.wait(wait.min(WAIT_MAX));
    }
}
