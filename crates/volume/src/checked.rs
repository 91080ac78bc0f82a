//! The contract of [`Volume`], checked in one place.
//!
//! Invariant: an implementation behind [`Checked`] sees only non-empty requests inside its size
//! and no writes if it is read-only; a front end in front of it sees only extents that are in
//! order and without gaps. Whoever hands a volume to a front end wraps it.

use crate::{Durability, Extent, RequestContext, Volume, VolumeError, VolumeErrorKind, VolumeInfo};
use std::fmt;
use std::ops::ControlFlow;

/// A volume whose contract is checked on both sides.
#[derive(Debug)]
pub struct Checked<V> {
    inner: V,
    read_only: bool,
}

/// The source of the `Io` error that a wrong implementation earns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContractBroken {
    /// A piece did not start where the one before ended.
    Gap {
        /// Where it had to start, bytes.
        expected_bytes: u64,
        /// Where it started, bytes.
        found_bytes: u64,
    },
    /// A piece is empty, or its end is past the end of the volume.
    Length {
        /// Where the piece starts, bytes.
        offset_bytes: u64,
        /// Its length, bytes.
        len_bytes: u64,
    },
    /// A hole that does not read as zeroes.
    HoleNotZero {
        /// Where the piece starts, bytes.
        offset_bytes: u64,
    },
    /// The pieces ended before the range did, though the visitor wanted more.
    Short {
        /// Where the range ends, bytes.
        expected_bytes: u64,
        /// Where the pieces ended, bytes.
        found_bytes: u64,
    },
}

impl fmt::Display for ContractBroken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gap {
                expected_bytes,
                found_bytes,
            } => write!(f, "extent at {found_bytes}, expected at {expected_bytes}"),
            Self::Length {
                offset_bytes,
                len_bytes,
            } => write!(f, "extent at {offset_bytes} has a wrong length {len_bytes}"),
            Self::HoleNotZero { offset_bytes } => {
                write!(f, "hole at {offset_bytes} does not read as zeroes")
            }
            Self::Short {
                expected_bytes,
                found_bytes,
            } => write!(f, "extents end at {found_bytes}, expected {expected_bytes}"),
        }
    }
}

impl std::error::Error for ContractBroken {}

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

    fn writable(&self) -> Result<(), VolumeError> {
        if self.read_only {
            return Err(VolumeErrorKind::ReadOnly.into());
        }
        Ok(())
    }
}

/// What is wrong with `piece`, if it should start at `expected_bytes` of a volume of `size_bytes`.
fn inspect(piece: Extent, expected_bytes: u64, size_bytes: u64) -> Result<u64, ContractBroken> {
    let Extent {
        offset_bytes,
        len_bytes,
        ..
    } = piece;
    if offset_bytes != expected_bytes {
        return Err(ContractBroken::Gap {
            expected_bytes,
            found_bytes: offset_bytes,
        });
    }
    if piece.hole && !piece.zero {
        return Err(ContractBroken::HoleNotZero { offset_bytes });
    }
    match offset_bytes.checked_add(len_bytes) {
        Some(end) if len_bytes != 0 && end <= size_bytes => Ok(end),
        _ => Err(ContractBroken::Length {
            offset_bytes,
            len_bytes,
        }),
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
        let size_bytes = self.inner.size_bytes();
        let range_end = offset_bytes + len_bytes;
        let mut reached = offset_bytes;
        let mut broken = None;
        let mut stopped = false;
        self.inner
            .extents(context, offset_bytes, len_bytes, &mut |piece| {
                if stopped || reached >= range_end {
                    // A piece after the last one is harmless: the visitor does not see it.
                    return ControlFlow::Break(());
                }
                match inspect(piece, reached, size_bytes) {
                    Ok(end) => reached = end,
                    Err(what) => {
                        broken = Some(what);
                        stopped = true;
                        return ControlFlow::Break(());
                    }
                }
                let flow = visit(piece);
                stopped = flow.is_break();
                flow
            })?;
        if broken.is_none() && !stopped && reached < range_end {
            broken = Some(ContractBroken::Short {
                expected_bytes: range_end,
                found_bytes: reached,
            });
        }
        match broken {
            Some(what) => Err(VolumeError::new(VolumeErrorKind::Io, what)),
            None => Ok(()),
        }
    }

    fn is_cached(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) -> bool {
        match self.range(offset_bytes, len_bytes) {
            Ok(true) => self.inner.is_cached(context, offset_bytes, len_bytes),
            // The request will be answered here, without the device.
            Ok(false) | Err(_) => true,
        }
    }

    fn prefetch(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) {
        if let Ok(true) = self.range(offset_bytes, len_bytes) {
            self.inner.prefetch(context, offset_bytes, len_bytes);
        }
    }
}

#[cfg(test)]
mod tests;
