//! The contract of [`Volume`], checked in one place.
//!
//! Invariant: an implementation behind [`Checked`] sees only non-empty requests inside its size
//! and no writes if it is read-only; a front end in front of it sees only extents that are in
//! order and without gaps. Whoever hands a volume to a front end wraps it.

use crate::{
    Change, Changes, Durability, Extent, RequestContext, Volume, VolumeError, VolumeErrorKind,
    VolumeInfo,
};
use cover::Cover;
use std::ops::ControlFlow;
use std::sync::Arc;

pub use cover::ContractBroken;

mod cover;

/// A volume whose contract is checked on both sides.
#[derive(Debug)]
pub struct Checked<V> {
    inner: V,
    read_only: bool,
}

impl<V: Volume> Checked<V> {
    /// Checks every request to `inner` and every extent from it.
    pub fn new(inner: V) -> Self {
        let read_only = inner.info().read_only;
        Self { inner, read_only }
    }

    /// `Ok(false)` if there is nothing to do.
    fn range(&self, offset_bytes: u64, len_bytes: u64) -> Result<bool, VolumeError> {
        let end = offset_bytes.checked_add(len_bytes);
        match end {
            Some(end) if end <= self.inner.size_bytes() => Ok(len_bytes != 0),
            _ => Err(VolumeErrorKind::OutOfRange.into()),
        }
    }

    /// Visits what differs from an earlier state of this volume; `changes` comes from its
    /// [`Volume::changes_since`]. The visitor sees pieces in order and without gaps.
    pub fn changes(
        &self,
        changes: &dyn Changes,
        context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        visit: &mut dyn FnMut(Change) -> ControlFlow<()>,
    ) -> Result<(), VolumeError> {
        if !self.range(offset_bytes, len_bytes)? {
            return Ok(());
        }
        let mut cover = Cover::new(offset_bytes, len_bytes, self.inner.size_bytes());
        changes.pieces(context, offset_bytes, len_bytes, &mut |piece| {
            cover.piece(piece.offset_bytes, piece.len_bytes, false, || visit(piece))
        })?;
        cover.end()
    }

    fn writable(&self) -> Result<(), VolumeError> {
        if self.read_only {
            return Err(VolumeErrorKind::ReadOnly.into());
        }
        Ok(())
    }
}

impl<V: Volume> Volume for Checked<V> {
    fn info(&self) -> VolumeInfo {
        self.inner.info()
    }

    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        into: &mut [u8],
    ) -> Result<(), VolumeError> {
        if !self.range(offset_bytes, into.len() as u64)? {
            return Ok(());
        }
        self.inner.read(context, offset_bytes, into)
    }

    fn write(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        data: &[u8],
        durability: Durability,
    ) -> Result<(), VolumeError> {
        self.writable()?;
        if !self.range(offset_bytes, data.len() as u64)? {
            return Ok(());
        }
        self.inner.write(context, offset_bytes, data, durability)
    }

    fn write_now(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        data: &[u8],
    ) -> Result<bool, VolumeError> {
        self.writable()?;
        if !self.range(offset_bytes, data.len() as u64)? {
            return Ok(true);
        }
        self.inner.write_now(context, offset_bytes, data)
    }

    fn flush(&self, context: RequestContext) -> Result<(), VolumeError> {
        if self.read_only {
            return Ok(());
        }
        self.inner.flush(context)
    }

    fn discard(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> Result<(), VolumeError> {
        self.writable()?;
        if !self.range(offset_bytes, len_bytes)? {
            return Ok(());
        }
        self.inner.discard(context, offset_bytes, len_bytes)
    }

    fn write_zeroes(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        may_free: bool,
        durability: Durability,
    ) -> Result<(), VolumeError> {
        self.writable()?;
        if !self.range(offset_bytes, len_bytes)? {
            return Ok(());
        }
        self.inner
            .write_zeroes(context, offset_bytes, len_bytes, may_free, durability)
    }

    fn extents(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        visit: &mut dyn FnMut(Extent) -> ControlFlow<()>,
    ) -> Result<(), VolumeError> {
        if !self.range(offset_bytes, len_bytes)? {
            return Ok(());
        }
        let mut cover = Cover::new(offset_bytes, len_bytes, self.inner.size_bytes());
        self.inner
            .extents(context, offset_bytes, len_bytes, &mut |piece| {
                let hole_not_zero = piece.hole && !piece.zero;
                cover.piece(piece.offset_bytes, piece.len_bytes, hole_not_zero, || {
                    visit(piece)
                })
            })?;
        cover.end()
    }

    fn is_cached(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) -> bool {
        match self.range(offset_bytes, len_bytes) {
            Ok(true) => self.inner.is_cached(context, offset_bytes, len_bytes),
            // The request will be answered here, without the device.
            Ok(false) | Err(_) => true,
        }
    }

    fn baselines(&self, count_max: usize) -> Vec<String> {
        self.inner.baselines(count_max)
    }

    fn changes_since(&self, baseline: &str) -> Option<Arc<dyn Changes>> {
        self.inner.changes_since(baseline)
    }

    fn prefetch(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) {
        if let Ok(true) = self.range(offset_bytes, len_bytes) {
            self.inner.prefetch(context, offset_bytes, len_bytes);
        }
    }
}

#[cfg(test)]
mod tests;
