//! The end of a server: what volumes have written goes into containers.
//!
//! Invariant: leaves nothing to replay; where that cannot be done, the journal has it. Called by
//! `serve` when no thread and no client changes volumes any more.

use crate::held::Held;
use crate::program::Program;
use crate::systemd::Notifier;
use std::sync::Arc;
use store::StoreError;
use volumes::Step;

/// Bytes of a step of the last checkpoint: the service manager hears of each.
const STEP_BYTES: u64 = 64 << 20;

/// Why something is left to replay.
#[derive(Debug, thiserror::Error)]
pub enum SettleError {
    /// What was written could not be made durable.
    #[error(transparent)]
    Flush(StoreError),
    /// It could not be put into containers.
    #[error("the last checkpoint; the journal has what was written")]
    Checkpoint(#[source] StoreError),
    /// The journal could not be closed.
    #[error("the journal")]
    Journal(#[source] StoreError),
}

/// See the module's head.
pub fn settle(
    held: &Held,
    notifier: &Notifier,
    program: &Arc<dyn Program>,
) -> Result<(), SettleError> {
    let volumes = &held.volumes;
    // It costs heat only.
    let _ = volumes.store_trace();
    volumes.flush().map_err(SettleError::Flush)?;
    loop {
        notifier.say("EXTEND_TIMEOUT_USEC=30000000\nSTATUS=writing a last checkpoint");
        let step = volumes.step(STEP_BYTES).map_err(SettleError::Checkpoint)?;
        if step == Step::Idle {
            break;
        }
    }
    for kept in volumes.kept_writes() {
        program.warn(format_args!("{kept}"));
    }
    volumes.close().map_err(SettleError::Journal)
}
