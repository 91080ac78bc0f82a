//! Why a maintenance task of a server did not begin, stop or go on.
//!
//! Invariant: the words are the cause's own, where there is one: commands show them as they are. Called
//! by the tasks of the server's state; the program maps the kinds to exit codes.

use crate::interrupt::Interrupted;
use duet::TooManySessions;
use media::MediaError;
use store::StoreError;

/// See the module's head.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// Another command collects space.
    #[error("space is being collected already (see quintet status)")]
    Collecting,
    /// Another run of the defragmentation is under way.
    #[error("the server is defragmenting already (see quintet defrag status)")]
    Defragmenting,
    /// The server begins nothing any more.
    #[error("the server ends")]
    Ending,
    /// The caller asked to stop while it waited.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// The page cache has no session left.
    #[error(transparent)]
    Sessions(#[from] TooManySessions),
    /// How far the task is could not be written down.
    #[error(transparent)]
    Record(#[from] MediaError),
    /// The pool failed.
    #[error(transparent)]
    Pool(#[from] StoreError),
}
