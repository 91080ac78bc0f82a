//! Errors of a request to begin, stop or resume a maintenance task of a server. The tasks of the
//! server state return them, and the program maps the kinds to exit codes.
//!
//! Invariant: an error with a cause shows the cause's own message, because commands print it as it
//! is.

use crate::interrupt::Interrupted;
use duet::TooManySessions;
use media::MediaError;
use store::StoreError;

/// Error of a request to a maintenance task.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// Another command runs gc.
    #[error("a gc is running already (see quintet status)")]
    Collecting,
    /// Another defragmentation run is in progress.
    #[error("a defragmentation is running already (see quintet defrag status)")]
    Defragmenting,
    /// The server is ending and begins no task.
    #[error("the server is stopping; try again after its restart")]
    Ending,
    /// The caller was asked to stop while it waited.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// The page cache has no session left.
    #[error(transparent)]
    Sessions(#[from] TooManySessions),
    /// The progress of the task could not be recorded.
    #[error(transparent)]
    Record(#[from] MediaError),
    /// The pool failed.
    #[error(transparent)]
    Pool(#[from] StoreError),
}
