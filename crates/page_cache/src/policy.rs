//! Defines eviction policies: they choose the next clean chunk to evict. The clean side calls this.
//!
//! Invariant: a policy knows each frame from `inserted` until it names it as `victim`, once. It
//! does no I/O and knows no clock. It learns of hits only when it asks, so that a hit costs a byte
//! in the frame and takes no lock of the policy.

mod ghosts;
mod queues;
mod s3_fifo;

use crate::Use;
use classes::ClassSet;
pub use s3_fifo::S3Fifo;
use units::IoClass;

/// Number of a frame of clean bytes, valid while it is in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FrameId(pub(crate) u32);

/// Current value of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Heat {
    /// Number of ticks in which it was demanded since the one in which it was inserted, less the
    /// cooling; at most 3. A tick is the time in which a 64th of the memory is inserted.
    pub hits: u8,
    /// Memory that the frame takes.
    pub bytes: u32,
    /// At least forty bits of its content's fingerprint. They are the same when the content comes
    /// back.
    pub identity: u64,
    /// Class of its most important use. It may change while the frame is in memory.
    pub class: IoClass,
}

/// Source of a frame's heat.
pub trait FrameHeat {
    /// Returns the frame's heat and takes one hit from it.
    fn cool(&mut self, frame: FrameId) -> Heat;

    /// Notes that the policy counts the frame as one of its present class from now on.
    fn moved(&mut self, frame: FrameId);
}

/// Chooses frames to evict.
pub trait EvictionPolicy: Send {
    /// Notes that a frame is in memory now, with its heat, for this use.
    fn inserted(&mut self, frame: FrameId, heat: Heat, for_use: Use);

    /// Names the next frame to evict, of one of these classes, which are equally important. It must
    /// not be named again. `None` only when the policy knows no such frame.
    fn victim(&mut self, classes: ClassSet, frames: &mut dyn FrameHeat) -> Option<FrameId>;

    /// Returns the memory of the policy's own tables, bytes.
    fn memory_bytes(&self) -> usize;
}
