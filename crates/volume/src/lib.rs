//! The waist upwards: what every front end sees of a disk.
//!
//! Invariant: the contract is checked once, in [`Checked`]; implementations may rely on it and
//! front ends may not bypass it. Front ends call this; the store, decorators and test volumes
//! implement it.
#![forbid(unsafe_code)]

mod changes;
mod checked;
mod decorators;
mod error;
mod memory;

pub use changes::{Change, Changes};
pub use checked::{Checked, ContractBroken};
pub use decorators::{Counted, Counts, Failure, Faulty, Operation, ReadOnly};
pub use error::{VolumeError, VolumeErrorKind};
pub use memory::MemoryVolume;

use std::ops::ControlFlow;
use std::sync::Arc;
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
pub trait Volume: Send + Sync {
    /// Size and abilities.
    fn info(&self) -> VolumeInfo;

    /// Size in bytes, the same as in [`Volume::info`] but without its allocation: asked once for
    /// every request, so implementations override it.
    fn size_bytes(&self) -> u64 {
        self.info().size_bytes
    }

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

    /// Does what [`Volume::write`] does with [`Durability::Volatile`], but only if it need not
    /// wait: for a device, for room, for others' writes to drain. `Ok(false)` if it would have to;
    /// then nothing was written, and the caller hands the write to a thread that may wait.
    fn write_now(
        &self,
        _context: RequestContext,
        _offset_bytes: u64,
        _data: &[u8],
    ) -> Result<bool, VolumeError> {
        Ok(false)
    }

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

    /// True if reading the range, or asking for its extents, is likely to need no device. Never
    /// waits itself; may be wrong both ways. Front ends serve cached requests at once and hand
    /// the others to threads.
    fn is_cached(&self, _context: RequestContext, _offset_bytes: u64, _len_bytes: u64) -> bool {
        true
    }

    /// Names of the earlier states that [`Volume::changes_since`] knows, newest first, at most
    /// `count_max`; there may be more that can be asked for.
    fn baselines(&self, _count_max: usize) -> Vec<String> {
        Vec::new()
    }

    /// What changed since the state called `baseline`; `None` if there is no such state, or none
    /// that can be compared, so that the caller has to take everything for changed.
    fn changes_since(&self, _baseline: &str) -> Option<Arc<dyn Changes>> {
        None
    }

    /// A hint that the range will be read soon; never an error, never waits for the device.
    fn prefetch(&self, _context: RequestContext, _offset_bytes: u64, _len_bytes: u64) {}
}

/// Implements [`Volume`] for a pointer to one.
macro_rules! forward {
    ($($pointer:ty),*) => {$(
        impl<V: Volume + ?Sized> Volume for $pointer {
            fn info(&self) -> VolumeInfo {
                (**self).info()
            }
            fn size_bytes(&self) -> u64 {
                (**self).size_bytes()
            }
            fn read(
                &self,
                context: RequestContext,
                offset_bytes: u64,
                into: &mut [u8],
            ) -> Result<(), VolumeError> {
                (**self).read(context, offset_bytes, into)
            }
            fn write(
                &self,
                context: RequestContext,
                offset_bytes: u64,
                data: &[u8],
                durability: Durability,
            ) -> Result<(), VolumeError> {
                (**self).write(context, offset_bytes, data, durability)
            }
            fn write_now(
                &self,
                context: RequestContext,
                offset_bytes: u64,
                data: &[u8],
            ) -> Result<bool, VolumeError> {
                (**self).write_now(context, offset_bytes, data)
            }
            fn flush(&self, context: RequestContext) -> Result<(), VolumeError> {
                (**self).flush(context)
            }
            fn discard(
                &self,
                context: RequestContext,
                offset_bytes: u64,
                len_bytes: u64,
            ) -> Result<(), VolumeError> {
                (**self).discard(context, offset_bytes, len_bytes)
            }
            fn write_zeroes(
                &self,
                context: RequestContext,
                offset_bytes: u64,
                len_bytes: u64,
                may_free: bool,
                durability: Durability,
            ) -> Result<(), VolumeError> {
                (**self).write_zeroes(context, offset_bytes, len_bytes, may_free, durability)
            }
            fn extents(
                &self,
                context: RequestContext,
                offset_bytes: u64,
                len_bytes: u64,
                visit: &mut dyn FnMut(Extent) -> ControlFlow<()>,
            ) -> Result<(), VolumeError> {
                (**self).extents(context, offset_bytes, len_bytes, visit)
            }
            fn is_cached(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) -> bool {
                (**self).is_cached(context, offset_bytes, len_bytes)
            }
            fn baselines(&self, count_max: usize) -> Vec<String> {
                (**self).baselines(count_max)
            }
            fn changes_since(&self, baseline: &str) -> Option<Arc<dyn Changes>> {
                (**self).changes_since(baseline)
            }
            fn prefetch(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) {
                (**self).prefetch(context, offset_bytes, len_bytes);
            }
        }
    )*};
}
forward!(&V, Arc<V>, Box<V>);
