//! What a server's threads ask of the program around them.
//!
//! Invariant: a server knows no console and opens no pool but its own: it says here what happened,
//! and the program finds the words and the place for them. Called by [`crate::threads`]; the
//! program implements it.

use crate::held::Replica;
use crate::interrupt::Interrupt;
use maintenance::ScrubFindings;
use std::fmt;
use std::sync::Arc;
use store::{LaneOptions, Pool};

/// See the module's head.
pub trait Program: Send + Sync {
    /// Says something that nobody has to act on.
    fn note(&self, text: fmt::Arguments<'_>);

    /// Says that something went wrong, and that the rest goes on.
    fn warn(&self, text: fmt::Arguments<'_>);

    /// Says what a step of the scrub has found.
    fn found(&self, found: &ScrubFindings);

    /// Stores again what `pool`, which is open for writing, has lost and the replica has, and says
    /// what that was. A replica that fails is a warning. `between` is called between small steps.
    /// An error is why it ended early, in words.
    fn repair(
        &self,
        replica: &Replica,
        pool: &Arc<Pool>,
        lane: LaneOptions,
        interrupt: &Interrupt,
        between: &mut dyn FnMut(),
    ) -> Result<(), String>;
}
