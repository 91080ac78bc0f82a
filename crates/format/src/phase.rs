//! Encodes the phase of a maintenance task. The records of scrub and defragmentation use this.
//!
//! Invariant: any other number is an error.

use crate::stored::stored;

stored! {
    /// Phase of a scrub or of a defragmentation.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub enum TaskPhase: "phase" {
        /// It has ended, or there was none.
        #[default]
        AtRest = 0 => "at_rest",
        /// It is running, and continues when a server starts.
        UnderWay = 1 => "under_way",
        /// It was started, and continues on request.
        Paused = 2 => "paused",
    }
}
