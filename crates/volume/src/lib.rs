//! Defines the `Volume` interface: a disk as every front end sees it.
//!
//! Front ends call this. The store and test volumes implement it; decorators are [`Layer`]s.
//! Invariant: the contract is checked once, in [`Checked`]. Implementations may rely on it and
//! front ends may not bypass it. No ability of a volume is lost unnoticed on the way.
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
pub use decorators::{CallCounts, Counted, Failure, Faulty, ReadOnly, Slow};
pub use error::{VolumeError, VolumeErrorKind};
pub use layer::{Layer, Operation, VolumeRequest};
pub use memory::MemoryVolume;

use std::ops::ControlFlow;
use units::{IoClass, Origin, Pattern};

/// Origin, class and access pattern of a request. Small and `Copy`: it travels with every request
/// down to the scheduler.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestContext {
    /// Origin of the request.
    pub origin: Origin,
    /// Class of the request.
    pub class: IoClass,
    /// Access pattern, if a layer above has judged it: layers below do not judge again.
    pub pattern: Option<Pattern>,
    /// The file was opened with `O_DIRECT`. False if the front end does not know.
    pub is_direct: bool,
}

impl RequestContext {
    /// A request of a client, of which nothing else is known.
    pub const CLIENT: Self = Self {
        origin: Origin::Foreground,
        class: IoClass(0),
        pattern: None,
        is_direct: false,
    };
}

/// Properties that do not change while a volume is open, apart from its size.
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

/// A piece of a volume, as [`Volume::extents`] visits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte.
    pub offset_bytes: u64,
    /// Length in bytes, never 0.
    pub len_bytes: u64,
    /// The piece takes no space (a hole). Implies `zero`.
    pub hole: bool,
    /// The piece reads as zeroes.
    pub zero: bool,
}

/// Point at which a write may be acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// As soon as later reads see it.
    Volatile,
    /// When it survives power loss (FUA).
    Durable,
}

/// A disk.
///
/// Contract, checked by [`Checked`]: `offset + length <= size_bytes`. Lengths may be 0; such
/// requests do nothing. Requests may have any alignment. Many threads may call all methods at once.
/// A read that overlaps a concurrent write sees, for each block of 512 bytes, old or new bytes.
/// Errors leave the volume usable unless the kind is `Failed`.
///
/// No method has a default. [`Volume::capabilities`] declares further abilities. A volume in front
/// of another one implements [`Layer`] instead of this.
///
/// ```compile_fail,E0063
/// // An ability that is left out does not count as absent.
/// let _ = volume::Capabilities { fast_path: None, changes: None };
/// ```
pub trait Volume: Send + Sync {
    /// Returns size and properties.
    fn info(&self) -> VolumeInfo;

    /// Returns the size in bytes, as [`Volume::info`] does, but without its allocation. Called once
    /// for every request.
    fn size_bytes(&self) -> u64;

    /// Fills `into` from `offset_bytes`. The bytes were verified against their fingerprint.
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

    /// Frees the space of the range. It reads as zeroes afterwards.
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

    /// Visits the pieces that cover the range, in order and without gaps, until the visitor breaks.
    ///
    /// The first piece starts at `offset_bytes`. Neighbours may be alike. The last piece may reach
    /// past the end of the range but not past the end of the volume.
    fn extents(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        visit: &mut dyn FnMut(Extent) -> ControlFlow<()>,
    ) -> Result<(), VolumeError>;

    /// Returns the further abilities. Cheap: called for every request.
    fn capabilities(&self) -> Capabilities<'_>;
}
