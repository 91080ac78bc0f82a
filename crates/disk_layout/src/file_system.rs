//! Defines the map of a file system, whatever its kind. `part` keeps one and passes it steps,
//! writes and lookups.
//!
//! Invariant: a file system costs no more memory than it was given, and a step is bounded.

use super::budget::Shed;
use super::contents::Contents;
use super::source::Meter;

/// Whether a write changes what is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Interest {
    /// No.
    None,
    /// The range matters; its bytes do not.
    Changed,
    /// A journal was written: what its own blocks say matters.
    Journal {
        /// Length of a block, bytes.
        block_bytes: u32,
        /// Bytes of the write before its first whole block.
        skip_bytes: u64,
    },
}

impl Interest {
    /// The range matters if something `is_changed`.
    pub fn changed_if(is_changed: bool) -> Self {
        match is_changed {
            true => Self::Changed,
            false => Self::None,
        }
    }
}

/// Result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// There is more to do.
    More,
    /// Nothing to do until the next write.
    Idle,
    /// The file system is another one now, or none: begin again.
    Lost,
    /// All depends on what cannot be read, at this offset.
    Unreadable(u64),
}

/// The map of a file system, learned from its disk and from writes. Offsets count from the start of
/// the part that it fills.
pub trait FileSystem: Send + Sync {
    /// Contents at an offset, and the bytes from there that are alike.
    fn at(&self, offset_bytes: u64) -> (Contents, u64);

    /// Notes a write; `None` if its bytes are not known.
    fn wrote(&mut self, offset_bytes: u64, len_bytes: u64, bytes: Option<&[u8]>);

    /// Returns whether [`Self::wrote`] would change anything. Takes little time.
    fn interest(&self, offset_bytes: u64, len_bytes: u64, bytes: Option<&[u8]>) -> Interest;

    /// Reads a little, or enters a little of what was read.
    fn step(&mut self, meter: &mut Meter<'_>) -> Step;

    /// Sets the memory for the map; it has no more than that now.
    fn set_memory(&mut self, memory_max: u64);

    /// Memory of the map beside the value itself, bytes.
    fn heap_bytes(&self) -> u64;

    /// Counts what was left out or forgotten for lack of memory.
    fn shed(&self) -> Shed;

    /// Bytes whose contents are known.
    fn known_bytes(&self) -> u64;

    /// Memory of the map, bytes.
    fn memory_bytes(&self) -> u64 {
        self.heap_bytes() + size_of_val(self) as u64
    }

    /// Memory that the map would take if nothing were left out, bytes; an estimate.
    fn needed_bytes(&self) -> u64 {
        self.memory_bytes().saturating_add(self.shed().bytes)
    }
}

/// A file system that was found, or the least memory that its map takes, bytes: more than there is.
pub type Probed<F> = Option<Result<F, u64>>;
