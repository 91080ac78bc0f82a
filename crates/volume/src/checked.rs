//! Checks the contract of [`Volume`] in one place. Every volume is wrapped before a front end gets
//! it.
//!
//! Invariant: an implementation behind [`Checked`] sees only non-empty requests inside its size,
//! and no writes if it is read-only. A front end in front of it sees only extents that are in order
//! and without gaps.

use crate::{
    Capabilities, Change, Changes, Extent, FastPath, Layer, Operation, Prefetch, RequestContext,
    Volume, VolumeError, VolumeErrorKind, VolumeRequest,
};
use cover::Cover;
use std::ops::ControlFlow;

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

    /// Checks a range. Returns `Ok(false)` if there is nothing to do.
    fn range(&self, offset_bytes: u64, len_bytes: u64) -> Result<bool, VolumeError> {
        let end = offset_bytes.checked_add(len_bytes);
        match end {
            Some(end) if end <= self.inner.size_bytes() => Ok(len_bytes != 0),
            _ => Err(VolumeErrorKind::OutOfRange.into()),
        }
    }

    /// Visits the differences from an earlier state of this volume. `changes` comes from its
    /// [`crate::TrackChanges::changes_since`]. The visitor sees pieces in order and without gaps.
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

impl<V: Volume> Layer for Checked<V> {
    type Inner = V;

    fn below(&self) -> &V {
        &self.inner
    }

    fn around(
        &self,
        request: VolumeRequest,
        go: impl FnOnce(&V) -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        match request.operation {
            Operation::Read | Operation::Extents => {}
            Operation::Write | Operation::Discard | Operation::WriteZeroes => self.writable()?,
            Operation::Flush if self.read_only => return Ok(()),
            Operation::Flush => return go(&self.inner),
        }
        match self.range(request.offset_bytes, request.len_bytes)? {
            true => go(&self.inner),
            false => Ok(()),
        }
    }

    fn extents(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        visit: &mut dyn FnMut(Extent) -> ControlFlow<()>,
    ) -> Result<(), VolumeError> {
        let request = VolumeRequest::new(Operation::Extents, offset_bytes, len_bytes);
        self.around(request, |below| {
            let mut cover = Cover::new(offset_bytes, len_bytes, below.size_bytes());
            below.extents(context, offset_bytes, len_bytes, &mut |piece| {
                let hole_not_zero = piece.hole && !piece.zero;
                cover.piece(piece.offset_bytes, piece.len_bytes, hole_not_zero, || {
                    visit(piece)
                })
            })?;
            cover.end()
        })
    }

    /// Names every ability, because a new one needs its check. [`Checked::changes`] checks changes.
    fn capabilities<'a>(&'a self, below: Capabilities<'a>) -> Capabilities<'a> {
        Capabilities {
            fast_path: Some(self),
            changes: below.changes,
            prefetch: below.prefetch.map(|_| self as &dyn Prefetch),
        }
    }
}

impl<V: Volume> FastPath for Checked<V> {
    fn is_cached(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) -> bool {
        match self.range(offset_bytes, len_bytes) {
            Ok(true) => {
                let below = self.inner.capabilities();
                below.is_cached(context, offset_bytes, len_bytes)
            }
            // The request is answered here, without the device.
            Ok(false) | Err(_) => true,
        }
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
        let below = self.inner.capabilities();
        below.write_now(context, offset_bytes, data)
    }
}

impl<V: Volume> Prefetch for Checked<V> {
    fn prefetch(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) {
        if let Ok(true) = self.range(offset_bytes, len_bytes) {
            let below = self.inner.capabilities();
            below.prefetch(context, offset_bytes, len_bytes);
        }
    }

    fn announce(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) -> bool {
        let below = self.inner.capabilities();
        matches!(self.range(offset_bytes, len_bytes), Ok(true))
            && below.announce(context, offset_bytes, len_bytes)
    }
}

#[cfg(test)]
mod tests;
