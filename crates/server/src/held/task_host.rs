//! Where maintenance tasks run in this program: beside a server's clients, or in a command that is alone.
//!
//! Invariant: a turn at a server's device is waited for until somebody asks to stop. Called by the controller of
//! `maintenance`, for threads and commands.

use super::Held;
use crate::interrupt::Interrupt;
use maintenance::{HeldTurn, Host, Stopped};
use qos::Flow;
use std::time::{Duration, Instant};

/// Waits in between hear of new limits, and of what readers do.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// See the module's head.
pub struct TaskHost<'a> {
    held: Option<&'a Held>,
    interrupt: &'a Interrupt,
    started: Instant,
}

impl<'a> TaskHost<'a> {
    /// In a server that holds the pool, or (`None`) alone.
    pub fn new(held: Option<&'a Held>, interrupt: &'a Interrupt) -> Self {
        Self {
            held,
            interrupt,
            started: Instant::now(),
        }
    }

    /// Waits for a task whose rate limit allows nothing before `until_ns`, or for a part of that time.
    pub fn wait_until(&self, until_ns: u64) {
        let wait = Duration::from_nanos(until_ns.saturating_sub(self.now_ns()));
        self.interrupt.wait(wait.min(WAIT_MAX));
    }
}

impl Host for TaskHost<'_> {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn is_to_stop(&self) -> bool {
        self.interrupt.requested()
    }

    fn turn(&self, flow: Flow, bytes: u64) -> Result<Option<Box<dyn HeldTurn + '_>>, Stopped> {
        let Some(held) = self.held else {
            return match self.is_to_stop() {
                true => Err(Stopped),
                false => Ok(None),
            };
        };
        match held.turn(flow, bytes, self.interrupt) {
            Ok(turn) => Ok(Some(Box::new(turn))),
            Err(_) => Err(Stopped),
        }
    }
}
