//! Defines eviction policies: they choose the next clean chunk to evict. The clean side calls this.
//!
//! Invariant: a policy knows each frame from `inserted` until it names it as `victim`, once. It
//! does no I/O and knows no clock. It learns of hits only when it asks, so that a hit costs a byte
//! in the frame and takes no lock of the policy.

mod ghosts;
mod queues;
mod s3_fifo;

use crate::Use;
use classes::CLASSES;
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

/// A set of classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassSet(u64);

const _: () = assert!(CLASSES <= u64::BITS as usize);

impl ClassSet {
    /// All classes.
    pub const ALL: Self = Self(u64::MAX);
    pub(crate) const NONE: Self = Self(0);

    pub(crate) const fn one(class: IoClass) -> Self {
        Self(1 << (class.0 & 63))
    }

    /// Returns true if the class is one of them.
    pub const fn contains(self, class: IoClass) -> bool {
        self.0 & Self::one(class).0 != 0
    }

    pub(crate) const fn and(self, class: IoClass) -> Self {
        Self(self.0 | Self::one(class).0)
    }

    pub(crate) const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    const fn without(self, class: IoClass) -> Self {
        Self(self.0 & !Self::one(class).0)
    }

    const fn both(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    const fn is_one(self) -> bool {
        self.0.is_power_of_two()
    }

    /// Yields the classes, the smallest first.
    pub fn iter(self) -> impl Iterator<Item = IoClass> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let class = (left != 0).then(|| IoClass(left.trailing_zeros() as u8));
            left &= left.wrapping_sub(1);
            class
        })
    }
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
