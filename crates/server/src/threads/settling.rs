//! The end of a server: destages what volumes have written. `serve` calls this when no thread and
//! no client changes volumes any more.
//!
//! Invariant: on success, the journal has nothing to replay. On failure, the journal keeps the
//! writes.

use crate::program::Program;
use crate::state::ServerState;
use crate::systemd::Notifier;
use std::sync::Arc;
use store::StoreError;
use volumes::CheckpointStep;

/// Step of the last checkpoint, bytes. The service manager gets a sign of life for each.
const STEP_BYTES: u64 = 64 << 20;

/// Reason why the journal must be replayed.
#[derive(Debug, thiserror::Error)]
pub enum SettleError {
    /// The writes could not be made durable.
    #[error(transparent)]
    Flush(StoreError),
    /// The writes are durable in the journal and could not be destaged.
    #[error("the last checkpoint failed; the writes are safe in the journal")]
    Checkpoint(#[source] StoreError),
    /// The journal could not be closed.
    #[error("cannot close the journal")]
    Journal(#[source] StoreError),
}

/// Flushes, makes the last checkpoint and closes the journal.
pub fn settle(
    server: &ServerState,
    notifier: &Notifier,
    program: &Arc<dyn Program>,
) -> Result<(), SettleError> {
    let volumes = &server.volumes;
    // A lost trace costs heat data only.
    let _ = volumes.store_trace();
    volumes.flush().map_err(SettleError::Flush)?;
    loop {
        notifier.say("EXTEND_TIMEOUT_USEC=30000000\nSTATUS=writing a last checkpoint");
        let step = volumes.step(STEP_BYTES).map_err(SettleError::Checkpoint)?;
        if step == CheckpointStep::Idle {
            break;
        }
    }
    for kept in volumes.kept_writes() {
        program.warn(format_args!("{kept}"));
    }
    volumes.close().map_err(SettleError::Journal)
}
