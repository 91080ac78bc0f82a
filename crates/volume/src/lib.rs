//! The waist upwards: what every front end sees of a disk.
//!
//! Invariant: the contract is checked once, in [`Checked`]; implementations may rely on it and
//! front ends may not bypass it; no ability of a volume is lost in silence on the way. Front ends call
//! this; the store and test volumes implement it, decorators are [`Layer`]s.
#![forbid(unsafe_code)]

mod capabilities;
mod changes;
mod checked;
mod decorators;
mod error;
mod layer;
mod memory;

pub use capabilities::{Capabilities, FastPath, Prefetch, TrackChanges};
pub use changes::{Change, Changes};
pub use checked::{Checked, ContractBroken};
pub use decorators::{Counted, Counts, Failure, Faulty, ReadOnly, Slow};
pub use error::{VolumeError, VolumeErrorKind};
pub use layer::{Layer, Operation, Request};
pub use memory::MemoryVolume;

use std::ops::ControlFlow;
use units::{IoClass, Origin};

/// Who asks, and what for. Small and `Copy`: travels with every request down to the scheduler.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestContext {
    /// Who asks.
    pub origin: Origin,
    /// What for.
    pub class: IoClass,
}

/// What does not change while a volume is open, apart from its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeInfo {
    /// Size in bytes; any value, not only whole blocks.
    pub size_bytes: u64,
    /// Writes fail with `ReadOnly`.
    pub read_only: bool,
    /// Smallest request served without read-modify-write, bytes, a power of two.
    pub block_bytes_min: u32,
    /// Request size at which the volume is fastest, bytes, a power of two.
    pub block_bytes_preferred: u32,
    /// One line for humans.
    pub description: String,
}

/// A piece of a volume: what [`Volume::extents`] visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte.
    pub offset_bytes: u64,
    /// Length in bytes, never 0.
    pub len_bytes: u64,
    /// Takes no space (a hole). Implies `zero`.
    pub hole: bool,
    /// Reads as zeroes.
    pub zero: bool,
}

/// When a write may be acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// As soon as later reads see it.
    Volatile,
    /// When it survives power loss (FUA).
    Durable,
}

/// A disk.
///
/// Contract, checked by [`Checked`]: `offset + length <= size_bytes`; lengths may be 0 and do
/// nothing; requests of any alignment. All methods may be called from many threads at once; a
/// read that overlaps a concurrent write sees, block by block of 512 bytes, old or new bytes.
/// Errors leave the volume usable unless the kind is `Failed`.
///
/// No method has a default. What a volume can do besides is said in [`Volume::capabilities`]; what
/// stands in front of another volume implements [`Layer`] instead of this.
///
/// ```compile_fail,E0063
/// // An ability that is left out is not taken for absent.
/// let _ = volume::Capabilities { fast_path: None, changes: None };
/// ```
pub trait Volume: Send + Sync {
    /// Size and abilities.
    fn info(&self) -> VolumeInfo;

    /// Size in bytes, the same as in [`Volume::info`] but without its allocation: asked once for
    /// every request.
    fn size_bytes(&self) -> u64;

    /// Fills `into` from `offset_bytes`. Bytes were verified against their fingerprint.
    fn read(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        into: &mut [u8],
    ) -> Result<(), VolumeError>;

    /// Stores `data` at `offset_bytes`.
    fn write(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        data: &[u8],
        durability: Durability,
    ) -> Result<(), VolumeError>;

    /// Returns when every write acknowledged before the call survives power loss.
    fn flush(&self, context: RequestContext) -> Result<(), VolumeError>;

    /// Gives space back. The range reads as zeroes afterwards.
    fn discard(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> Result<(), VolumeError>;

    /// Makes the range read as zeroes; `may_free` allows it to become a hole.
    fn write_zeroes(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        may_free: bool,
        durability: Durability,
    ) -> Result<(), VolumeError>;

    /// Visits the pieces that cover the range, in order and without gaps, until the visitor
    /// breaks. The first piece starts at `offset_bytes`; neighbours may be alike; the last piece
    /// may reach past the end of the range but not past the end of the volume.
    fn extents(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        visit: &mut dyn FnMut(Extent) -> ControlFlow<()>,
    ) -> Result<(), VolumeError>;

    /// What it can do besides. Cheap: asked for with every request.
    fn capabilities(&self) -> Capabilities<'_>;
}
