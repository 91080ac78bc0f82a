//! Defines layers: decorators and pointers that stand in front of a volume. There is no other way
//! to do so.
//!
//! Decorators of every crate implement [`Layer`]; callers see a [`Volume`].
//! Invariant: anything that a layer does not change reaches the volume below unchanged, abilities
//! included. A new method of [`Volume`] does not compile until it is forwarded here, once for all
//! layers.

use crate::{Capabilities, Durability, Extent, RequestContext, Volume, VolumeError, VolumeInfo};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The method of the core that was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// [`Volume::read`].
    Read,
    /// [`Volume::write`].
    Write,
    /// [`Volume::flush`]; has no range.
    Flush,
    /// [`Volume::discard`].
    Discard,
    /// [`Volume::write_zeroes`].
    WriteZeroes,
    /// [`Volume::extents`].
    Extents,
}

/// A call of the core, without its buffers. [`Layer::around`] decides by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeRequest {
    /// The method.
    pub operation: Operation,
    /// First byte; 0 for a flush.
    pub offset_bytes: u64,
    /// Length in bytes; 0 for a flush.
    pub len_bytes: u64,
    /// `Volatile` for methods that change nothing.
    pub durability: Durability,
}

impl VolumeRequest {
    /// Makes a request that need not be durable.
    pub fn new(operation: Operation, offset_bytes: u64, len_bytes: u64) -> Self {
        Self {
            operation,
            offset_bytes,
            len_bytes,
            durability: Durability::Volatile,
        }
    }

    fn with(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }
}

/// A volume in front of another. Implementing this makes a [`Volume`]; a layer writes only what it
/// changes.
pub trait Layer: Send + Sync {
    /// Type of the volume behind.
    type Inner: Volume + ?Sized;

    /// Returns the volume behind.
    fn below(&self) -> &Self::Inner;

    /// Wraps every request of the core. `go` passes the request on. A layer acts before and after
    /// that, or does not call `go`.
    fn around(
        &self,
        _request: VolumeRequest,
        go: impl FnOnce(&Self::Inner) -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        go(self.below())
    }

    /// Returns the abilities, given those of the volume behind.
    ///
    /// The implementation ends with `..below` if a new ability may pass unchanged. A layer that
    /// guards something names every field instead.
    fn capabilities<'a>(&'a self, below: Capabilities<'a>) -> Capabilities<'a> {
        below
    }

    /// As [`Volume::info`].
    fn info(&self) -> VolumeInfo {
        self.below().info()
    }

    /// As [`Volume::size_bytes`].
    fn size_bytes(&self) -> u64 {
        self.below().size_bytes()
    }

    /// As [`Volume::read`].
    fn read(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        into: &mut [u8],
    ) -> Result<(), VolumeError> {
        let request = VolumeRequest::new(Operation::Read, offset_bytes, into.len() as u64);
        self.around(request, |below| below.read(context, offset_bytes, into))
    }

    /// As [`Volume::write`].
    fn write(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        data: &[u8],
        durability: Durability,
    ) -> Result<(), VolumeError> {
        let request = VolumeRequest::new(Operation::Write, offset_bytes, data.len() as u64);
        self.around(request.with(durability), |below| {
            below.write(context, offset_bytes, data, durability)
        })
    }

    /// As [`Volume::flush`].
    fn flush(&self, context: RequestContext) -> Result<(), VolumeError> {
        let request = VolumeRequest::new(Operation::Flush, 0, 0);
        self.around(request, |below| below.flush(context))
    }

    /// As [`Volume::discard`].
    fn discard(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> Result<(), VolumeError> {
        let request = VolumeRequest::new(Operation::Discard, offset_bytes, len_bytes);
        self.around(request, |below| {
            below.discard(context, offset_bytes, len_bytes)
        })
    }

    /// As [`Volume::write_zeroes`].
    fn write_zeroes(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        may_free: bool,
        durability: Durability,
    ) -> Result<(), VolumeError> {
        let request = VolumeRequest::new(Operation::WriteZeroes, offset_bytes, len_bytes);
        self.around(request.with(durability), |below| {
            below.write_zeroes(context, offset_bytes, len_bytes, may_free, durability)
        })
    }

    /// As [`Volume::extents`].
    fn extents(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        visit: &mut dyn FnMut(Extent) -> ControlFlow<()>,
    ) -> Result<(), VolumeError> {
        let request = VolumeRequest::new(Operation::Extents, offset_bytes, len_bytes);
        self.around(request, |below| {
            below.extents(context, offset_bytes, len_bytes, visit)
        })
    }
}

impl<L: Layer> Volume for L {
    fn info(&self) -> VolumeInfo {
        Layer::info(self)
    }

    fn size_bytes(&self) -> u64 {
        Layer::size_bytes(self)
    }

    fn read(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        into: &mut [u8],
    ) -> Result<(), VolumeError> {
        Layer::read(self, context, offset_bytes, into)
    }

    fn write(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        data: &[u8],
        durability: Durability,
    ) -> Result<(), VolumeError> {
        Layer::write(self, context, offset_bytes, data, durability)
    }

    fn flush(&self, context: RequestContext) -> Result<(), VolumeError> {
        Layer::flush(self, context)
    }

    fn discard(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> Result<(), VolumeError> {
        Layer::discard(self, context, offset_bytes, len_bytes)
    }

    fn write_zeroes(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        may_free: bool,
        durability: Durability,
    ) -> Result<(), VolumeError> {
        Layer::write_zeroes(self, context, offset_bytes, len_bytes, may_free, durability)
    }

    fn extents(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        visit: &mut dyn FnMut(Extent) -> ControlFlow<()>,
    ) -> Result<(), VolumeError> {
        Layer::extents(self, context, offset_bytes, len_bytes, visit)
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Layer::capabilities(self, self.below().capabilities())
    }
}

impl<V: Volume + ?Sized> Layer for &V {
    type Inner = V;
    fn below(&self) -> &V {
        self
    }
}

impl<V: Volume + ?Sized> Layer for Arc<V> {
    type Inner = V;
    fn below(&self) -> &V {
        self
    }
}

impl<V: Volume + ?Sized> Layer for Box<V> {
    type Inner = V;
    fn below(&self) -> &V {
        self
    }
}
