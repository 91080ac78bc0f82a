//! Implements the services that a server's threads need from the program. `serve` and `mount` pass
//! it to the server's threads, which call it.
//!
//! Invariant: messages are the same as those of the commands that do the same work.

use crate::commands::replica::repair_from;
use crate::commands::scrub::tell;
use maintenance::ScrubFindings;
use server::program::{Program, Replica};
use std::fmt;
use std::sync::Arc;
use store::{LaneOptions, Pool};
use terminal::console::Console;
use terminal::interrupt::Interrupt;

/// Services that report on a console.
pub(super) struct OnConsole(pub Arc<Console>);

impl Program for OnConsole {
    fn note(&self, text: fmt::Arguments<'_>) {
        self.0.note(text);
    }

    fn warn(&self, text: fmt::Arguments<'_>) {
        self.0.warn(text);
    }

    fn found(&self, found: &ScrubFindings) {
        // The findings of a server's thread are printed to its console. If the output fails, the
        // scrub goes on.
        let _ = tell(&self.0, found);
    }

    fn repair(
        &self,
        replica: &Replica,
        pool: &Arc<Pool>,
        lane: LaneOptions,
        interrupt: &Interrupt,
        between: &mut dyn FnMut(),
    ) -> Result<(), String> {
        let repaired = repair_from(replica, pool, lane, &self.0, interrupt, between);
        let _ = self.0.flush();
        repaired
            .map(|_| ())
            .map_err(|e| crate::commands::failure::text(&e))
    }
}
