//! Services that the server's threads need from the program. [`crate::threads`] calls them; the
//! program implements them.
//!
//! Invariant: a server has no console and opens no other pool. It reports events here, and the
//! program chooses where they are shown.

use maintenance::ScrubFindings;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use store::{LaneOptions, Pool, SecretKey};
use terminal::interrupt::Interrupt;

/// Services of the program. See the module's head.
pub trait Program: Send + Sync {
    /// Reports an event that needs no action.
    fn note(&self, text: fmt::Arguments<'_>);

    /// Reports a failure that does not stop the server.
    fn warn(&self, text: fmt::Arguments<'_>);

    /// Reports the findings of a scrub step.
    fn found(&self, found: &ScrubFindings);

    /// Repairs lost chunks of `pool` from the replica, and reports the result. `pool` must be open
    /// for writing. A failing replica is a warning. `between` is called between small steps. An
    /// error is the reason for an early end, in words.
    fn repair(
        &self,
        replica: &Replica,
        pool: &Arc<Pool>,
        lane: LaneOptions,
        interrupt: &Interrupt,
        between: &mut dyn FnMut(),
    ) -> Result<(), String>;
}

/// A replica that was opened once: its directory and its secret, which is kept in memory only.
/// `scrub` and `repair` make it. The scrub of a server keeps it until its pass ends, or for the
/// server's lifetime.
pub struct Replica {
    /// Directory of the replica.
    pub path: PathBuf,
    /// Key that opens the replica. `None` without encryption.
    pub secret: Option<SecretKey>,
    /// Memory budget while the replica is open, bytes.
    pub memory_bytes: usize,
}
