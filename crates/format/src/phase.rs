//! Encodes the phase of a maintenance task. The records of scrub and defragmentation use this.
//!
//! Invariant: any other number is an error.

use crate::bytes::{Reader, Result};

/// Phase of a scrub or of a defragmentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum TaskPhase {
    /// It has ended, or there was none.
    #[default]
    AtRest = 0,
    /// It is running, and continues when a server starts.
    UnderWay = 1,
    /// It was started, and continues on request.
    Paused = 2,
}

impl TaskPhase {
    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(match r.u8()? {
            0 => Self::AtRest,
            1 => Self::UnderWay,
            2 => Self::Paused,
            _ => return r.invalid("phase"),
        })
    }
}
