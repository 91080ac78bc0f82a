//! Errors of a request to begin, stop or resume a maintenance task of a server. The tasks of the
//! server state return them, and the program maps the kinds to exit codes.
//!
//! Invariant: an error with a cause shows the cause's own message, because commands print it as it
//! is.

use duet::TooManySessions;
use store::StoreError;
use terminal::interrupt::Interrupted;

/// Error of a request to a maintenance task.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// Another command runs gc.
    #[error("a gc is running already (see quintet status)")]
    Collecting,
    /// Another run of the task is in progress.
    #[error("the server is {doing} already (see quintet {task} status)")]
    Running {
        /// Command of the task.
        task: &'static str,
        /// The activity.
        doing: &'static str,
    },
    /// The server is ending and begins no task.
    #[error("the server is stopping; try again after its restart")]
    Ending,
    /// The caller was asked to stop while it waited.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// The page cache has no session left.
    #[error(transparent)]
    Sessions(#[from] TooManySessions),
    /// The pool failed.
    #[error(transparent)]
    Pool(#[from] StoreError),
}
