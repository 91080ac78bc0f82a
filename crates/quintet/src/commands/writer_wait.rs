//! Waits for the writer lock of a server. `Invocation` calls this.
//!
//! Invariant: a command waits as long in a server as without one.

use super::failure;
use server::state::{Asking, NotTaken, OpenPool, ServerState};
use std::time::Duration;
use store::{StoreError, StoreErrorKind};
use terminal::shell::Shell;
use unlocking::writer::{say_waiting, still_writing};

/// Returns the server's pool for a command of this name.
pub(super) fn in_server(
    server: &ServerState,
    shell: &Shell,
    name: &str,
    limit: Duration,
) -> anyhow::Result<OpenPool> {
    let asking = Asking {
        name,
        interrupt: &shell.interrupt,
        limit: Some(limit),
    };
    let waiting = |writer: &str| say_waiting(shell, &writer, limit);
    match server.access.for_writing(&asking, waiting) {
        Ok(pool) => Ok(pool),
        Err(NotTaken::Stopped(e)) => Err(e.into()),
        Err(NotTaken::Busy { holder }) => {
            let why = still_writing(Some(&holder), limit);
            let refused = StoreError::new(StoreErrorKind::Locked, why).into();
            Err(failure::of_pool(refused, &server.path))
        }
    }
}
