//! A volume that cannot be changed.
//!
//! Invariant: nothing that writes reaches the volume behind. Exports of snapshots use this.

use crate::{
    Changes, Durability, Extent, RequestContext, Volume, VolumeError, VolumeErrorKind, VolumeInfo,
};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Refuses everything that would change the volume behind.
#[derive(Debug)]
pub struct ReadOnly<V>(V);

impl<V: Volume> ReadOnly<V> {
    /// Makes `inner` read-only.
    pub fn new(inner: V) -> Self {
        Self(inner)
    }
}

impl<V: Volume> Volume for ReadOnly<V> {
    fn info(&self) -> VolumeInfo {
        VolumeInfo {
            read_only: true,
            ..self.0.info()
        }
    }

    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn read(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        into: &mut [u8],
    ) -> Result<(), VolumeError> {
        self.0.read(context, offset_bytes, into)
    }

    fn write(
        &self,
        _context: RequestContext,
        _offset_bytes: u64,
        _data: &[u8],
        _durability: Durability,
    ) -> Result<(), VolumeError> {
        Err(VolumeErrorKind::ReadOnly.into())
    }

    fn write_now(
        &self,
        _context: RequestContext,
        _offset_bytes: u64,
        _data: &[u8],
    ) -> Result<bool, VolumeError> {
        Err(VolumeErrorKind::ReadOnly.into())
    }

    /// Nothing was written through this volume, so there is nothing to wait for.
    fn flush(&self, _context: RequestContext) -> Result<(), VolumeError> {
        Ok(())
    }

    fn discard(
        &self,
        _context: RequestContext,
        _offset_bytes: u64,
        _len_bytes: u64,
    ) -> Result<(), VolumeError> {
        Err(VolumeErrorKind::ReadOnly.into())
    }

    fn write_zeroes(
        &self,
        _context: RequestContext,
        _offset_bytes: u64,
        _len_bytes: u64,
        _may_free: bool,
        _durability: Durability,
    ) -> Result<(), VolumeError> {
        Err(VolumeErrorKind::ReadOnly.into())
    }

    fn extents(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        visit: &mut dyn FnMut(Extent) -> ControlFlow<()>,
    ) -> Result<(), VolumeError> {
        self.0.extents(context, offset_bytes, len_bytes, visit)
    }

    fn is_cached(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) -> bool {
        self.0.is_cached(context, offset_bytes, len_bytes)
    }

    fn baselines(&self, count_max: usize) -> Vec<String> {
        self.0.baselines(count_max)
    }

    fn changes_since(&self, baseline: &str) -> Option<Arc<dyn Changes>> {
        self.0.changes_since(baseline)
    }

    fn prefetch(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) {
        self.0.prefetch(context, offset_bytes, len_bytes);
    }
}
