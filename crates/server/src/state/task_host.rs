//! The [`Host`] of maintenance tasks: in a server, beside its clients, or in a command that has the
//! pool alone. The controller of `maintenance` calls this.
//!
//! Invariant: in a server, a step waits for its I/O grant until it is granted or the task is asked
//! to stop. In a command, no grant is needed.

use super::ServerState;
use crate::interrupt::Interrupt;
use maintenance::{Host, IoGrant, Stopped};
use qos::Flow;
use std::time::{Duration, Instant};

/// Maximum length of one wait. After it, the task sees new limits and the verification by readers.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Host of maintenance tasks. See the module's head.
pub struct TaskHost<'a> {
    server: Option<&'a ServerState>,
    interrupt: &'a Interrupt,
    started: Instant,
}

impl<'a> TaskHost<'a> {
    /// `server` is the server state, or `None` in a command that has the pool alone.
    pub fn new(server: Option<&'a ServerState>, interrupt: &'a Interrupt) -> Self {
        Self {
            server,
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

    fn grant(&self, flow: Flow, bytes: u64) -> Result<Option<Box<dyn IoGrant + '_>>, Stopped> {
        let Some(server) = self.server else {
            return match self.is_to_stop() {
                true => Err(Stopped),
                false => Ok(None),
            };
        };
        match server.grant(flow, bytes, self.interrupt) {
            Ok(grant) => Ok(Some(Box::new(grant))),
            Err(_) => Err(Stopped),
        }
    }

    /// Waits at most `WAIT_MAX`.
    fn wait_until(&self, until_ns: u64) {
        let wait = Duration::from_nanos(until_ns.saturating_sub(self.now_ns()));
        self.interrupt.wait(wait.min(WAIT_MAX));
    }
}
