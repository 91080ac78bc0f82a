//! What a task of maintenance is doing, as its record says.
//!
//! Invariant: any other number is an error. Called by the records of scrub and defragmentation.

use crate::bytes::{Reader, Result};

/// Of a scrub, or of a defragmentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum TaskPhase {
    /// Nothing: it has ended, or there was none.
    #[default]
    AtRest = 0,
    /// It is under way, and goes on when a server starts.
    UnderWay = 1,
    /// It was begun, and goes on when somebody says so.
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
