//! The one way to stand in front of a volume: decorators and pointers are layers.
//!
//! Invariant: what a layer does not change reaches the volume below as it came, abilities included.
//! A new method of [`Volume`] does not compile until it is forwarded here, once for all layers.
//! Decorators of every room implement [`Layer`]; callers see a [`Volume`].

use crate::{Capabilities, Durability, Extent, RequestContext, Volume, VolumeError, VolumeInfo};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Which method of the core was called.
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

/// A call of the core, without its buffers: what [`Layer::around`] decides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is asked.
    pub operation: Operation,
    /// First byte; 0 for a flush.
    pub offset_bytes: u64,
    /// Length in bytes; 0 for a flush.
    pub len_bytes: u64,
    /// `Volatile` for whatever changes nothing.
    pub durability: Durability,
}

impl Request {
    /// One that need not be durable.
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
    /// The volume behind.
    type Below: Volume + ?Sized;

    /// The volume behind.
    fn below(&self) -> &Self::Below;

    /// Every request of the core passes here: `go` lets it through, and a layer does what it has to
    /// do before and after, or does not let it through.
    fn around(
        &self,
        _request: Request,
        go: impl FnOnce(&Self::Below) -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        go(self.below())
    }

    /// The abilities, given those of the volume behind. Ends with `..below` if an ability that is
    /// new may pass as it is; a layer that guards something names every field instead.
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
        let request = Request::new(Operation::Read, offset_bytes, into.len() as u64);
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
        let request = Request::new(Operation::Write, offset_bytes, data.len() as u64);
        self.around(request.with(durability), |below| {
            below.write(context, offset_bytes, data, durability)
        })
    }

    /// As [`Volume::flush`].
    fn flush(&self, context: RequestContext) -> Result<(), VolumeError> {
        let request = Request::new(Operation::Flush, 0, 0);
        self.around(request, |below| below.flush(context))
    }

    /// As [`Volume::discard`].
    fn discard(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> Result<(), VolumeError> {
        let request = Request::new(Operation::Discard, offset_bytes, len_bytes);
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
        let request = Request::new(Operation::WriteZeroes, offset_bytes, len_bytes);
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
        let request = Request::new(Operation::Extents, offset_bytes, len_bytes);
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
    type Below = V;
    fn below(&self) -> &V {
        self
    }
}

impl<V: Volume + ?Sized> Layer for Arc<V> {
    type Below = V;
    fn below(&self) -> &V {
        self
    }
}

impl<V: Volume + ?Sized> Layer for Box<V> {
    type Below = V;
    fn below(&self) -> &V {
        self
    }
}
