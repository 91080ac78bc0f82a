//! The [`Host`] of maintenance tasks: in a server, beside its clients, or in a command that has the
//! pool alone. The controller of `maintenance` calls this.
//!
//! Invariant: in a server, each step of a task needs an I/O grant. In a command, none does.

use super::Tasks;
use maintenance::{Host, IoGrant};
use qos::Flow;
use std::time::{Duration, Instant};
use terminal::interrupt::Interrupt;

/// Maximum length of one wait. After it, the task sees new limits and the verification by readers.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Host of maintenance tasks. See the module's head.
pub struct TaskHost<'a> {
    tasks: Option<&'a Tasks>,
    interrupt: &'a Interrupt,
    started: Instant,
}

impl<'a> TaskHost<'a> {
    /// `tasks` are those of the server, or `None` in a command that has the pool alone.
    pub fn new(tasks: Option<&'a Tasks>, interrupt: &'a Interrupt) -> Self {
        Self {
            tasks,
            interrupt,
            started: Instant::now(),
        }
    }
}

impl Host for TaskHost<'_> {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn is_to_stop(&self) -> bool {
        self.interrupt.requested()
    }

    fn ask(&self, flow: Flow, bytes: u64) -> Option<Box<dyn IoGrant + '_>> {
        let tasks = self.tasks?;
        Some(Box::new(tasks.ask(flow, bytes)))
    }

    /// Waits at most `WAIT_MAX`.
    fn wait_until(&self, until_ns: u64) {
        let wait = Duration::from_nanos(until_ns.saturating_sub(self.now_ns()));
        self.interrupt.wait(wait.min(WAIT_MAX));
    }
}
