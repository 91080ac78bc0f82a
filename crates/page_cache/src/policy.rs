//! Which clean chunk goes when memory is short.
//!
//! Invariant: a policy knows each frame from `inserted` until it names it as `victim`, once. It
//! does no I/O and knows no clock; what is hit it learns when it asks, so that a hit costs a byte in
//! the frame and no lock of the policy's. Called by the clean pages.

mod ghosts;
mod s3_fifo;

use crate::Use;
pub use s3_fifo::S3Fifo;

/// A frame of clean bytes, for as long as it is in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FrameId(pub(crate) u32);

/// What a frame is worth now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Heat {
    /// In how many ticks it was demanded since the one in which it was inserted, less what was
    /// cooled; at most 3. A tick is the time in which a 64th of the memory is inserted.
    pub hits: u8,
    /// Memory that it takes.
    pub bytes: u32,
    /// Forty bits or more of its content's fingerprint: the same when the content comes back.
    pub identity: u64,
}

/// Where a policy asks for a frame's heat.
pub trait FrameHeat {
    /// The frame's heat, and one hit less from now on.
    fn cool(&mut self, frame: FrameId) -> Heat;
}

/// Chooses victims.
pub trait EvictionPolicy: Send {
    /// A frame is in memory now, with its heat, for this use.
    fn inserted(&mut self, frame: FrameId, heat: Heat, for_use: Use);

    /// The frame that goes next, not to be named again; `None` only when the policy knows none.
    fn victim(&mut self, frames: &mut dyn FrameHeat) -> Option<FrameId>;

    /// Memory of the policy's own tables, bytes.
    fn memory_bytes(&self) -> usize;
}
