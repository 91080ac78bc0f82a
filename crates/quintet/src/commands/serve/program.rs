//! Implements the services that a server's threads need from the program. The server's threads call
//! this.
//!
//! Invariant: messages are the same as those of the commands that do the same work.

use crate::commands::replica::repair_from;
use crate::commands::scrub::tell;
use crate::console::Console;
use maintenance::ScrubFindings;
use server::interrupt::Interrupt;
use server::program::Program;
use server::state::Replica;
use std::fmt;
use std::sync::Arc;
use store::{LaneOptions, Pool};

impl Program for Console {
    fn note(&self, text: fmt::Arguments<'_>) {
        Console::note(self, text);
    }

    fn warn(&self, text: fmt::Arguments<'_>) {
        Console::warn(self, text);
    }

    fn found(&self, found: &ScrubFindings) {
        // The findings of a server's thread are printed to its console. If the output fails, the
        // scrub goes on.
        let _ = tell(self, found);
    }

    fn repair(
        &self,
        replica: &Replica,
        pool: &Arc<Pool>,
        lane: LaneOptions,
        interrupt: &Interrupt,
        between: &mut dyn FnMut(),
    ) -> Result<(), String> {
        let repaired = repair_from(replica, pool, lane, self, interrupt, between);
        let _ = self.flush();
        repaired
            .map(|_| ())
            .map_err(|e| crate::commands::failure::text(&e))
    }
}
